"""Cases as data: `tests/cases/planner/<case>/input.yaml` in, `expected.json` out. `BAI_RECORD=1` writes what
comes out; review the diff.
"""

from __future__ import annotations

import dataclasses
import json
import os
from math import inf
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.model.types import (
    Fractional,
    GroupInfo,
    NodeInfo,
    NodeReservation,
    Outcome,
    PreemptionRule,
    QuotaLimit,
    Running,
    SessionRequest,
    Snapshot,
)
from tests.planner.audit import audit
from tests.planner.support import GIB, machine, place, session

CASES = sorted(path.parent for path in (Path(__file__).parents[1] / "cases" / "planner").glob("*/input.yaml"))


def read(path: Path) -> Snapshot:
    """`machines`: name → arguments of `support.machine`; memory is in GiB everywhere; `count` repeats a node
    or session.
    """
    given = yaml.safe_load(path.read_text())
    machines = {name: machine(**_gib(one)) for name, one in given["machines"].items()}
    nodes = tuple(
        NodeInfo(one["name"].format(at), machines[one["machine"]], one.get("group", "main"), **_node(one))
        for one in given["nodes"]
        for at in range(one.get("count", 1))
    )
    groups = tuple(_group(one) for one in given.get("groups", [{"name": "main"}]))
    first = Snapshot(nodes, groups, pending=tuple(_sessions(given.get("running", []))), now=0.0)
    requests = {one.id: one for one in first.pending}
    running = tuple(Running(requests[one.session], one, started=0.0) for one in place(first).placements)
    assert len(running) == len(requests), "what the case says is running does not fit"
    return Snapshot(
        nodes,
        groups,
        tuple(QuotaLimit(**one) for one in given.get("quotas", [])),
        running,
        tuple(_sessions(given["pending"])),
        now=float(given.get("now", 0)),
    )


def _gib(one: dict[str, Any]) -> dict[str, Any]:
    """Memory and huge pages, which are written in GiB."""
    pages = {size: round(amount * GIB) for size, amount in one.get("hugepages", {}).items()}
    more = {"hugepages": pages} if pages else {}
    return one | ({"memory": one["memory"] * GIB} if "memory" in one else {}) | more


def _node(one: dict[str, Any]) -> dict[str, Any]:
    more = {key: value for key, value in one.items() if key in {"state", "labels"}}
    return more | {
        "unhealthy": frozenset(one.get("unhealthy", ())),
        "reserved_cpus": tuple(one.get("reserved_cpus", ())),
        "reserved_memory": one.get("reserved_memory", 0) * GIB,
    }


def _group(one: dict[str, Any]) -> GroupInfo:
    sets = {key: frozenset(one[key]) for key in ("allowed_types", "allowed_projects") if key in one}
    rules = {"fractional": Fractional(**one.get("fractional", {}))} | sets
    if "preemption" in one:
        rules["preemption"] = PreemptionRule(**one["preemption"])
    rules["reservations"] = tuple(
        NodeReservation(**(kept | {key: frozenset(kept[key]) for key in ("nodes", "projects")}))
        for kept in one.get("reservations", ())
    )
    return GroupInfo(**(one | rules))


def _sessions(given: list[dict[str, Any]]) -> list[SessionRequest]:
    found = []
    for number, one in enumerate(given):
        sets = {key: frozenset(one[key]) for key in ("designated", "gpu_models") if key in one}
        more = _gib(one) | sets | {"blocked_by": tuple(one.get("blocked_by", ()))}
        name, count = more.pop("name"), more.pop("count", 1)
        more.setdefault("enqueued", float(number))
        found += [session(name.format(at), **more) for at in range(count)]
    return found


def render(outcome: Outcome) -> str:
    """As JSON, which has no infinity: without `valid_until` where the outcome holds for ever, and without
    places that are held where there are none."""
    values = dataclasses.asdict(outcome)
    for value in (values, *values["placements"]):
        for name in {"held", "unheld", "lent"} & value.keys():
            if not value[name]:
                del value[name]
    if values["valid_until"] == inf:
        del values["valid_until"]
    return json.dumps(values, indent=1, sort_keys=True) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_case(case: Path) -> None:
    snapshot = read(case / "input.yaml")
    outcome = place(snapshot)
    audit(snapshot, outcome)
    expected = case / "expected.json"
    if os.environ.get("BAI_RECORD") == "1":
        expected.write_text(render(outcome))
    assert render(outcome) == expected.read_text()
