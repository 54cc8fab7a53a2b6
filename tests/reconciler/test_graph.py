"""The order of parts, from hand-made plans."""

from __future__ import annotations

import pytest

from planner.model.types import KernelPlacement, Placement
from reconciler.apply import action_graph
from reconciler.apply.graph_walk import GraphWalk
from reconciler.apply.steps import Step
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.changes.change import Change
from reconciler.values.plan import Action, Plan
from reconciler.values.sides import SessionSide

UPDATE, STOP = "resize", "stop"


def held(name: str, cpus: str) -> Placement:
    return Placement(name, "g", (KernelPlacement("main1", "n1", tuple(map(int, cpus)), 1000, (0,), 1),))


def action(name: str, before: str | None, after: str | None, *depends: str, why: str = "") -> Action:
    """Cores as a string of digits; `why=UPDATE` changes them in place."""
    sides = [
        None if cpus is None else SessionSide(1, "d", placement=held(name, cpus)) for cpus in (before, after)
    ]
    changes = () if why == UPDATE or None in sides else (Change("spec", "a", "b", forces=True),)
    return Action(
        name, "c", sides[0], sides[1], changes, Cause(CauseCode.SPEC_CHANGED, why), depends_on=depends
    )


def fake_steps(each: Action, plan: Plan) -> tuple[Step, ...]:
    if each.why == UPDATE:
        return (Step("update", each.id, each.id), Step("record", each.id))
    if each.why == STOP:
        return (Step("stop", each.id, "k"), Step("remove", each.id, "k"), Step("record", each.id))
    release = [Step("record", each.id), Step("stop", each.id, "k"), Step("remove", each.id, "k")]
    acquire = [Step("record", each.id), Step("create", each.id, "k"), Step("record", each.id)]
    end = [Step("forget", each.id)]
    return tuple((release if each.before else []) + (acquire if each.after else end))


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_graph, "action_steps", fake_steps)


def order(*actions: Action) -> dict[str, set[str]]:
    parts = action_graph.build_action_graph(Plan("r", "c", "", "", "", complete=True, actions=actions))
    return {part.id: set(part.after) for part in parts.values()}


def test_waves_run_effects_of_one_kind_together() -> None:
    release, acquire = action_graph.build_action_graph(
        Plan("r", "c", "", "", "", complete=True, actions=(action("a", "0", "1"),))
    ).values()
    assert [[step.kind for step in wave] for wave in release.waves] == [["record"], ["stop"], ["remove"]]
    assert [[step.kind for step in wave] for wave in acquire.waves] == [["record"], ["create"], ["record"]]
    assert acquire.after == {release.id}


def test_who_takes_a_core_waits_for_who_frees_it() -> None:
    assert order(action("a", "01", None), action("b", None, "1"), action("c", None, "2")) == {
        "a#release": set(),
        "b#acquire": {"a#release"},
        "c#acquire": set(),
    }


def test_a_swap_is_two_releases_and_then_two_creations() -> None:
    assert order(action("a", "0", "1"), action("b", "1", "0")) == {
        "a#release": set(),
        "b#release": set(),
        "a#acquire": {"a#release", "b#release"},
        "b#acquire": {"a#release", "b#release"},
    }


def test_what_an_update_in_place_gives_up_is_taken_after_it() -> None:
    assert order(action("a", "012", "0", why=UPDATE), action("b", None, "12")) == {
        "a#acquire": set(),
        "b#acquire": {"a#acquire"},
    }


def test_updates_in_place_that_trade_cores_do_not_wait_for_each_other() -> None:
    assert order(action("a", "0", "1", why=UPDATE), action("b", "1", "0", why=UPDATE)) == {
        "a#acquire": set(),
        "b#acquire": set(),
    }


def test_a_dependency_is_waited_for_before_creating_and_not_before_releasing() -> None:
    assert order(
        action("a", None, "0"), action("b", "1", "2", "a"), action("c", "3", None, "b", "unknown")
    ) == {
        "a#acquire": set(),
        "b#release": set(),
        "b#acquire": {"a#acquire", "b#release"},
        "c#release": {"b#acquire"},
    }


def test_who_stops_to_wait_gives_up_its_cores_without_waiting() -> None:
    waits = Action(
        "b",
        "c",
        SessionSide(1, "d", placement=held("b", "1")),
        SessionSide(2, "d"),
        cause=Cause(CauseCode.SPEC_CHANGED, STOP),
        depends_on=("a",),
    )
    assert order(action("a", "0", "1"), waits) == {
        "a#release": set(),
        "a#acquire": {"a#release", "b#release"},
        "b#release": set(),
    }


def test_failing_takes_out_all_that_depends_on_it() -> None:
    chain = (action("a", None, "0"), action("b", None, "1", "a"), action("c", None, "2", "b"))
    alone = action("d", None, "3")
    parts = action_graph.build_action_graph(
        Plan("r", "c", "", "", "", complete=True, actions=(*chain, alone))
    )
    walk = GraphWalk(parts)
    assert [part.id for part in walk.take_ready()] == ["a#acquire", "d#acquire"]
    assert [part.id for part in walk.mark_failed(parts["a#acquire"])] == ["b#acquire", "c#acquire"]
    walk.mark_succeeded(parts["d#acquire"])
    assert walk.take_ready() == []


def test_who_comes_after_a_trade_of_cores_waits_for_it() -> None:
    trade = (action("a", "02", "1", why=UPDATE), action("b", "1", "0", why=UPDATE))
    after = order(*trade, action("c", None, "2"), action("d", "3", None), action("e", "5", "3", why=UPDATE))
    assert after == {
        "a#acquire": set(),
        "b#acquire": set(),
        "c#acquire": {"a#acquire"},
        "d#release": set(),
        "e#acquire": {"d#release"},
    }
