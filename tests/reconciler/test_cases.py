"""Cases as folders: `desired/` (documents) and `actual.json` (records and kernels) give `plan.txt`.

A new bug is a new folder. With `BAI_RECORD=1`, `plan.txt` is written again, and so is `actual.json` where
the folder says how it came about: `before/` (documents that were applied) and `happens.json` (what happened
to them since); a person reviews the diff. `options.json` holds fields of `PlanOptions`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from planner.model.types import Placement
from providers.base import Capabilities, Observation
from reconciler.observe.observe import actual_state
from reconciler.plan.pipeline import make_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.sources.desired import make_desired
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from reconciler.values.plan_options import PlanOptions
from reconciler.values.records import Recorded
from schemas.loading.loader import load_directory
from tests.reconciler.lab import REPO, Lab, text

CASES = Path(__file__).parents[1] / "cases" / "plan"
RECORD = bool(os.environ.get("BAI_RECORD"))


@dataclass(frozen=True)
class World:
    """What `actual.json` holds."""

    now: float
    recorded: dict[str, Recorded]
    seen: Observation
    capabilities: Capabilities


WORLD = TypeAdapter(World)
# Modules of values name some types of others only where types are checked.
WORLD.rebuild(_types_namespace={**globals(), "Placement": Placement})


def _read(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    value: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return value


def _record_actual(folder: Path, scratch: Path) -> None:
    lab = Lab(scratch)
    for path in lab.folder.iterdir():
        path.unlink()
    lab.write({path.stem: path.read_text() for path in (folder / "before").iterdir()})
    assert lab.apply().ok
    for kernel, ending in _read(folder, "happens.json").items():
        if ending == "vanishes":
            lab.world.vanish(lab.kernel(*kernel.split("/")))
        elif ending == "hides":
            lab.world.hidden.add(lab.kernel(*kernel.split("/")))
        elif ending == "is lost":
            lab.world.lose(lab.kernel(*kernel.split("/")))
        elif kernel == "seconds":
            lab.world.clock.sleep(ending)
        else:
            lab.world.die(lab.kernel(*kernel.split("/")), exit_code=ending)
    world = World(
        lab.world.clock.now(), lab.store.recorded("here"), lab.provider.observe(), lab.provider.capabilities()
    )
    value = WORLD.dump_python(world, mode="json")
    for limits in (value["capabilities"][name] for name in ("limits", "in_place", "fractions")):
        limits.sort()
    (folder / "actual.json").write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_case(case: str, tmp_path: Path) -> None:
    folder = CASES / case
    if RECORD and (folder / "before").is_dir():
        _record_actual(folder, tmp_path)
    world = WORLD.validate_json((folder / "actual.json").read_text())
    desired = make_desired(load_directory(folder / "desired"), "here", repo=REPO, commit="")
    actual = actual_state(
        world.recorded, world.seen, world.capabilities, repo=REPO, cluster="here", hardware={}
    )
    request = PlanRequest(desired, actual, world.now, PlanOptions(**_read(folder, "options.json")))
    plan = make_plan(request)
    found = text(plan)
    assert dump_plan(load_plan(dump_plan(plan))) == dump_plan(plan)
    assert dump_plan(plan) == dump_plan(make_plan(request))
    if RECORD:
        (folder / "plan.txt").write_text(found)
    assert found == (folder / "plan.txt").read_text()
