"""Fields of documents that only the planner acts on, from the YAML to the plan."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.plan.pipeline import make_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.plan.planner_values import group_info
from reconciler.values.plan import Plan
from reconciler.workspace.placement_policies import planner_for
from tests.reconciler.lab import BASE, Lab, session, summary

OTHER = """
apiVersion: bai/v1
kind: Project
metadata: {name: q}
spec: {}
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, nodes=2)


def group(lab: Lab, spec: str, *more: str) -> None:
    lab.write({"base": "\n---\n".join([BASE.replace("spec: {}", f"spec: {{{spec}}}", 1), OTHER, *more])})


def of(project: str, name: str, spec: str) -> str:
    return session(name, spec).replace("project: p", f"project: {project}")


def reasons(plan: Plan, identity: str) -> list[str]:
    return [reason.message for wait in plan.waits if wait.session == identity for reason in wait.reasons]


def quota(project: str, gpus: int, more: str = "") -> str:
    total = f"subject: {{project: {project}}}, total: {{cuda.device: {gpus}}}, cohort: lab"
    head = f"apiVersion: bai/v1\nkind: Quota\nmetadata: {{name: q-{project}}}\n"
    return f"{head}spec: {{{total}{', ' + more if more else ''}}}\n"


def test_a_cohort_lends_up_to_the_limit(lab: Lab) -> None:
    big = {"a": of("p", "a", "resources: {cpu: 1, cuda.device: 2}")}
    group(lab, "", quota("p", 1, "borrowing: {cuda.device: 1}"), quota("q", 1))
    lab.write(big)
    assert summary(lab.plan())["Session/p/a"] == "create" and not lab.plan().waits
    group(lab, "", quota("p", 1, "borrowing: {cuda.device: 0}"), quota("q", 1))
    assert "may borrow 0 GPUs from cohort lab" in reasons(lab.plan(), "Session/p/a")[0]
    group(lab, "", quota("p", 1), quota("q", 1))
    assert not lab.plan().waits


def test_reserved_nodes_are_kept(lab: Lab) -> None:
    now = lab.world.clock.now()
    starts, ends = (datetime.fromtimestamp(now + offset, UTC).isoformat() for offset in (-60, 3600))
    kept = f"{{name: exam, nodes: [n1, n2], projects: [q], startsAt: '{starts}', endsAt: '{ends}'}}"
    group(lab, f"reservations: [{kept}]")
    lab.write({"a": of("p", "a", "resources: {cpu: 1}"), "b": of("q", "b", "resources: {cpu: 1}")})
    plan = lab.plan()
    assert [wait.session for wait in plan.waits] == ["Session/p/a"]
    assert reasons(plan, "Session/p/a") == [
        "nodes n1, n2 are kept for project q until 1970-01-12 14:46 UTC (reservation exam)"
    ]
    lab.world.clock.sleep(3601)
    assert not lab.plan().waits


def test_one_leaf_follows_the_nodes_labels(lab: Lab) -> None:
    gang = "resources: {cpu: 1}, cluster: {mode: multi-node, roles: {main: 1, sub: 1}}"
    lab.write({"gang": session("gang", gang + ", placement: {sameLeaf: true}")})
    assert "has the label bai/leaf" in reasons(lab.plan(), "Session/p/gang")[0]
    nodes = lab.folder / "nodes.yaml"
    text = nodes.read_text()
    for leaves, fits in ((("l1", "l2"), False), (("l1", "l1"), True)):
        labelled = text
        for name, leaf in zip(("n1", "n2"), leaves, strict=True):
            labelled = labelled.replace(
                f"metadata: {{name: {name}}}", f"metadata: {{name: {name}, labels: {{bai/leaf: {leaf}}}}}"
            )
        nodes.write_text(labelled)
        assert (not lab.plan().waits) == fits


def test_nvlink_is_required_of_the_nodes_links(lab: Lab) -> None:
    two = "resources: {cpu: 1, cuda.device: 2}"
    lab.write({"a": session("a", two + ", placement: {requireNvlink: true}")})
    assert "joined by NVLink" in reasons(lab.plan(), "Session/p/a")[0]
    lab.write({"a": session("a", two)})
    assert not lab.plan().waits


def test_the_queues_options_reach_the_planner(lab: Lab) -> None:
    options = "queue: drf, queueOptions: {hierarchy: true, weights: {project/q: 3}, halfLife: 1h}"
    group(lab, options)
    found = group_info(lab.desired().groups["default"])
    assert found.queue_options["hierarchy"] is True
    assert found.queue_options["weights"] == {"project/q": 3}
    assert found.queue_options["halfLife"] == 3600
    sessions = {f"p{at}": of("p", f"p{at}", "resources: {cpu: 2}") for at in range(8)}
    sessions |= {f"q{at}": of("q", f"q{at}", "resources: {cpu: 2}") for at in range(8)}
    lab.write(sessions)
    starts = [
        action.id.split("/")[1]
        for action in lab.plan().actions
        if action.session_after is not None and action.session_after.phase == "RUNNING"
    ]
    assert sorted(starts) == ["p"] * 2 + ["q"] * 6


def test_a_plan_whose_packing_the_clock_cut_short_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    group(lab, "packing: whole-queue, packingTimeLimit: 30s")
    lab.write({f"s{at}": session(f"s{at}", "resources: {cpu: 1, cuda.device: 1}") for at in range(20)})

    def plan(seconds: Iterator[float]) -> Plan:
        clock = SimpleNamespace(monotonic=lambda: next(seconds))
        monkeypatch.setattr("reconciler.workspace.placement_policies.time", clock)
        desired = lab.desired()
        request = PlanRequest(desired, lab.actual(), lab.world.clock.now(), place=planner_for(desired))
        return make_plan(request)

    still, fast = plan(itertools.repeat(5.0)), plan(itertools.count(0.0, 40.0))
    assert still.waits and still.actions == fast.actions
    [text] = [one for one in fast.warnings if "packingTimeLimit of 30 s" in one]
    assert text not in still.warnings and fast.digest != still.digest
    assert still.digest == lab.plan().digest
