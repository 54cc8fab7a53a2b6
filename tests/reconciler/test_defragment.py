"""`--defragment`: sessions that allow it are moved, one after another, in a plan like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers.fake import Fault
from reconciler.apply.action_graph import build_action_graph
from reconciler.values.changes.cause import CauseCode
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from reconciler.values.plan import Notice, Plan
from schemas.problems.errors.plan import PlanError
from tests.reconciler.lab import BASE, NODE, Lab, action, session, summary

GPU = "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}, movable: true"
SPREAD = BASE.replace("spec: {}", "spec: {selection: dispersed}", 1)
A, B, C, D = (f"Session/p/{name}" for name in "abcd")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path)
    lab.write({"base": SPREAD, "nodes": "\n---\n".join(NODE.format(name=f"n{at}") for at in range(1, 5))})
    return lab


def spread(lab: Lab, **specs: str) -> None:
    """Four sessions of one GPU, each on a node of two; `specs` has those that are not `GPU`."""
    lab.write({name: session(name, specs.get(name, GPU)) for name in "abcd"})
    assert lab.apply().ok
    assert sorted(places(lab).values()) == ["n1", "n2", "n3", "n4"]


def places(lab: Lab) -> dict[str, str]:
    found = {}
    for identity, each in lab.actual().existing.items():
        if each.recorded.placement is not None:
            found[identity] = each.recorded.placement.kernels[0].node
    return found


def movers(plan: Plan) -> set[str]:
    return {one.id for one in plan.changes if one.cause and one.cause.code is CauseCode.DEFRAGMENTATION}


def test_nothing_moves_unasked_and_a_plan_says_what_it_gains(lab: Lab) -> None:
    spread(lab)
    assert not lab.plan().changes
    plan = lab.plan(moves=1)
    assert summary(plan) == {next(iter(movers(plan))): "replace"}
    (one,) = plan.changes
    assert "room for sessions of 2 GPUs 0 -> 1" in one.why
    assert [change.path for change in one.changes if change.forces] == ["generation", "placement.nodes"]
    assert one.before and one.after and one.after.generation == one.before.generation + 1
    use = plan.groups[0]
    assert (use.fits_before["2 GPUs"], use.fits_after["2 GPUs"]) == (0, 1)
    assert not lab.plan().changes  # asking moved nothing


def test_moves_are_made_one_after_another_and_then_there_is_nothing_left_to_do(lab: Lab) -> None:
    spread(lab)
    plan = lab.plan(moves=5)
    first, second = sorted(plan.changes, key=lambda one: one.in_turn != "")
    assert (first.in_turn, second.in_turn) == ("", first.id)
    assert f"{first.id}#acquire" in build_action_graph(plan)[f"{second.id}#release"].after
    assert load_plan(dump_plan(plan)) == plan
    assert lab.apply(load_plan(dump_plan(plan))).ok
    assert sorted(places(lab).values()).count("n1") in (0, 2)
    assert len(set(places(lab).values())) == 2
    assert not lab.plan().changes and not lab.plan(moves=5).changes


def test_a_move_that_fails_stops_the_ones_after_it(lab: Lab) -> None:
    spread(lab)
    plan = lab.plan(moves=5)
    first, second = sorted(plan.changes, key=lambda one: one.in_turn != "")
    assert first.after is not None
    lab.world.inject(Fault("create", first.after.kernels[0], failure="refused"))
    before = places(lab)[second.id]
    assert not lab.apply(plan).ok
    assert places(lab)[second.id] == before
    running = {kernel.rpartition("-")[0] for kernel, one in lab.world.kernels.items()}
    assert any(name.startswith(second.id.rpartition("/")[2]) for name in running)


@pytest.mark.parametrize(
    "spec",
    [
        GPU.replace(", movable: true", ""),
        GPU + ", type: batch",
        GPU + ", dependsOn: [Session/p/d]",
    ],
)
def test_only_what_allows_it_is_moved(lab: Lab, spec: str) -> None:
    spread(lab, a=spec, b=spec, c=spec)
    assert movers(lab.plan(moves=5)) <= ({D} if "dependsOn" not in spec else set())


def test_batch_sessions_that_can_go_on_are_moved_and_told(lab: Lab) -> None:
    batch = GPU + ", type: batch, checkpoint: {signal: SIGUSR1, grace: 3m}"
    spread(lab, a=batch, b=batch, c=batch, d=batch)
    (one,) = lab.plan(moves=1).changes
    assert one.notice == Notice("SIGUSR1", 180.0)
    restarting = GPU + ", type: batch, restart: {policy: on-failure, max: 3}"
    lab.write({name: session(name, restarting) for name in "abcd"})
    lab.apply()
    assert lab.plan(moves=1).changes[0].notice is None


def test_protected_sessions_and_those_outside_the_targets_stay(lab: Lab) -> None:
    spread(lab)
    assert movers(lab.plan(moves=5, targets=(A,))) == {A}
    lab.write({n: session(n, GPU, meta="annotations: {bai/protect: 'true'}") for n in "abcd"})
    lab.apply()
    assert movers(lab.plan(moves=5)) == set()


def test_room_that_the_plan_itself_frees_is_not_counted_on(lab: Lab) -> None:
    """What a failed deletion leaves where it was must not be in the way of a session that was stopped."""
    spread(lab)
    was = places(lab)
    lab.drop("a")
    plan = lab.plan(moves=1)
    assert action(plan, A).verb == "delete"
    for one in plan.changes:
        if one.id in movers(plan) and one.placement_after:
            grants = {(k.node, d.id) for k in one.placement_after.kernels for d in k.devices}
            held = action(plan, A).before
            assert held and held.placement
            assert not grants & {(k.node, d.id) for k in held.placement.kernels for d in k.devices}
    assert was[A]


def test_who_waits_is_told_that_the_moves_make_room(lab: Lab) -> None:
    spread(lab)
    lab.write({"big": session("big", "resources: {cpu: 2, memory: 1GiB, cuda.device: 2}")})
    lab.apply()
    plan = lab.plan(moves=5)
    assert "Session/p/big fits once the sessions are moved: plan again then" in plan.warnings
    assert lab.apply(plan).ok
    assert summary(lab.plan()) == {"Session/p/big": "create"}


def test_allowing_it_changes_nothing_that_runs(lab: Lab) -> None:
    spread(lab, a=GPU.replace(", movable: true", ""))
    lab.write({"a": session("a", GPU)})
    assert summary(lab.plan()) == {A: "update"}


def test_where_it_makes_no_sense_it_is_refused(lab: Lab) -> None:
    spread(lab)
    with pytest.raises(PlanError):
        lab.plan(moves=5, destroy=True)
    with pytest.raises(PlanError):
        lab.plan(moves=5, refresh_only=True)
