"""From records and kernels to what is really there: phases, results, what a plan rests on, what is written
down again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from planner.model.types import KernelPlacement, Placement
from providers.base import KernelState, Labels, Observed
from reconciler.apply.steps import action_steps
from reconciler.observe.store_changes import record_changes
from reconciler.values.adoption import record_from_labels
from reconciler.values.encoding.fingerprint import state_fingerprint
from reconciler.values.encoding.placement_json import canonical_json
from reconciler.values.records import Allocation, Charge, Event, Phase, PutRecord, Recorded
from reconciler.values.session_phase import derive_phase, with_times
from tests.reconciler.lab import Lab, action, session

IDS = ("x-main1-g1", "x-sub1-g1")
PARTS = tuple(
    KernelPlacement(name, "n1", (at,), 1000, (0,), 1 << 30) for at, name in enumerate(("main1", "sub1"))
)


def record(
    phase: Phase = "RUNNING",
    *,
    type: str = "interactive",
    policy: str = "never",
    count: int = 1,
    ends: str = "",
) -> Recorded:
    layout = {"cluster": {"endsWith": ends}} if ends else {}
    document = {"spec": {"type": type, "restart": {"policy": policy}, **layout}}
    place = Placement("Session/p/x", "g", PARTS[:count])
    return Recorded("Session/p/x", "here", 1, "d", document, phase, place, IDS[:count])


def kernel(
    at: int = 0, state: KernelState = "running", code: int | None = None, reason: str = ""
) -> Observed:
    labels = Labels(
        "r", "here", "Session/p/x", 1, "d", PARTS[at].kernel, "n1", placement=canonical_json(PARTS[at])
    )
    return Observed(IDS[at], labels, state, code, reason or ("exit" if state == "exited" else ""))


@pytest.mark.parametrize(
    ("recorded", "kernels", "expected"),
    [
        (record(), [kernel()], ("RUNNING", "")),
        (record("CREATING"), [kernel()], ("RUNNING", "")),
        (record("CREATING"), [kernel(state="creating")], ("CREATING", "")),
        (record("CREATING"), [kernel(state="starting")], ("CREATING", "")),
        (record(), [kernel(state="starting")], ("CREATING", "")),
        (record(count=2), [kernel(), kernel(1, "creating")], ("CREATING", "")),
        (record(type="batch"), [kernel(0, "exited", 0)], ("TERMINATED", "success")),
        (record(type="batch"), [kernel(0, "exited", 3)], ("TERMINATED", "failure")),
        (record(type="batch"), [kernel(0, "exited", 0, "timeout")], ("TERMINATED", "failure")),
        (record(type="batch"), [kernel(0, "lost")], ("TERMINATED", "failure")),
        (record(type="batch", count=2), [kernel(0, "exited", 0), kernel(1)], ("TERMINATED", "success")),
        (record(type="batch", count=2), [kernel(), kernel(1, "exited", 0)], ("RUNNING", "")),
        (record(type="batch", count=2), [kernel(), kernel(1, "exited", 1)], ("TERMINATED", "failure")),
        (record(type="batch", count=2), [kernel(), kernel(1, "lost")], ("TERMINATED", "failure")),
        (record(type="batch", count=2, ends="main"), [kernel(), kernel(1, "exited", 1)], ("RUNNING", "")),
        (record(count=2), [kernel(), kernel(1, "exited", 1)], ("RUNNING", "")),
        (record(count=2, ends="any-failure"), [kernel(), kernel(1, "exited", 1)], ("ERROR", "")),
        (
            record(count=2, ends="any-failure"),
            [kernel(), kernel(1, "exited", 137, "signal 9")],
            ("RUNNING", ""),
        ),
        (
            record(type="batch", policy="on-failure", count=2),
            [kernel(), kernel(1, "lost")],
            ("RUNNING", ""),
        ),
        (record(count=2), [kernel(0, "exited", 143, "stopped"), kernel(1)], ("TERMINATED", "")),
        (
            record(type="batch", count=2),
            [kernel(), kernel(1, "exited", 143, "stopped")],
            ("TERMINATED", "failure"),
        ),
        (record(), [kernel(0, "exited", 1)], ("ERROR", "")),
        (record(), [kernel(0, "exited", 0)], ("TERMINATED", "")),
        (record(), [kernel(0, "exited", 143, "timeout")], ("TERMINATED", "")),
        (record(policy="on-failure"), [kernel(0, "exited", 1)], ("ERROR", "")),
        (record(), [kernel(0, "lost")], ("RUNNING", "")),
        (record(), [kernel(0, "exited", 137, "signal 9")], ("RUNNING", "")),
        (record(), [kernel(0, "exited", 139, "signal 11")], ("ERROR", "")),
        (record(type="batch"), [kernel(0, "exited", 137, "signal 9")], ("TERMINATED", "failure")),
        (record(type="batch"), [kernel(0, "lost")], ("TERMINATED", "failure")),
        (record(type="batch", policy="on-failure"), [kernel(0, "lost")], ("RUNNING", "")),
        (record("TERMINATING"), [kernel(0, "exited", 0)], ("TERMINATING", "")),
        (record("TERMINATED"), [kernel(0, "exited", 0)], ("TERMINATED", "")),
        (record("TERMINATED"), [], ("TERMINATED", "")),
        (record("ERROR"), [kernel()], ("RUNNING", "")),
    ],
)
def test_phases_follow_what_runs(
    recorded: Recorded, kernels: list[Observed], expected: tuple[str, str]
) -> None:
    found = derive_phase(recorded, kernels, complete=True)
    assert (found.phase, found.result) == expected


def test_the_container_that_ended_first_is_the_cause() -> None:
    def at(second: int, one: Observed) -> Observed:
        return replace(one, finished=datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC))

    both = record(type="batch", count=2)
    first_main = [at(1, kernel(0, "exited", 0)), at(2, kernel(1, "exited", 1))]
    assert derive_phase(both, first_main, complete=True).result == "success"
    first_sub = [at(2, kernel(0, "exited", 0)), at(1, kernel(1, "exited", 7))]
    found = derive_phase(both, first_sub, complete=True)
    assert (found.result, found.reason) == ("failure", "sub1 exited with 7")


def test_a_failed_container_takes_its_session_with_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a", "type: batch, cluster: {roles: {main: 1, sub: 2}}")})
    lab.apply()
    lab.world.die(lab.kernel("a", "sub2"), exit_code=5)
    plan = lab.plan()
    assert "sub2 exited with 5" in action(plan, "Session/p/a").why
    assert not lab.converge().changes
    assert {kernel.state for kernel in lab.provider.observe().kernels} == {"exited"}
    ended = lab.store.recorded("here")["Session/p/a"]
    assert (ended.phase, ended.result, ended.exit_codes["sub2"]) == ("TERMINATED", "failure", 5)


def test_what_an_apply_stopped_before_it_died_goes_on_with_the_rest() -> None:
    """It came to all but the first container, and by now nothing is to be ended: only its clock was wrong."""
    stopped = [kernel(), kernel(1, "exited", 143, "stopped")]
    assert derive_phase(record(count=2), stopped, complete=True).missing == (IDS[1],)
    assert derive_phase(record(type="batch", count=2, ends="main"), stopped, complete=True).missing == ()


def test_only_what_another_attempt_brings_further_is_created_again() -> None:
    for phase in ("CREATING", "PULLING"):
        half = derive_phase(record(phase), [kernel(state="creating")], complete=True)
        assert half.missing == (IDS[0],) and half.reason == "main1 was not seen to start"
        pulls = derive_phase(record(phase), [kernel(state="starting", reason="pulling app:1")], complete=True)
        assert pulls.missing == () and pulls.reason == "main1 was not seen to start: pulling app:1"


def test_what_is_missing_is_named_only_by_those_who_see_everything() -> None:
    there = [kernel()]
    found = derive_phase(record(count=2), there, complete=True)
    assert (found.missing, found.reason) == ((IDS[1],), "sub1 is gone")
    assert derive_phase(record(count=2), there, complete=False).missing == ()


def test_a_record_is_made_from_labels() -> None:
    found = record_from_labels([kernel(1), kernel()])
    assert (found.resource, found.kernels, found.phase) == ("Session/p/x", IDS, "RUNNING")
    assert found.placement and found.placement.kernels == PARTS
    odd = kernel()
    odd = replace(odd, labels=replace(odd.labels, placement="{nonsense", document="[1"))
    assert (record_from_labels([odd]).placement, record_from_labels([odd]).document) == (None, {})


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path)
    made.write({"a": session("a", "type: batch"), "b": session("b")})
    made.apply()
    return made


def test_what_moves_on_by_itself_makes_no_plan_stale(lab: Lab) -> None:
    before = state_fingerprint(lab.actual())
    lab.world.clock.sleep(5)
    lab.world.die(lab.kernel("a"), exit_code=0)
    assert state_fingerprint(lab.actual()) == before
    lab.world.vanish(lab.kernel("b"))
    assert state_fingerprint(lab.actual()) != before


def test_what_was_seen_is_written_down_once(lab: Lab) -> None:
    lab.world.die(lab.kernel("a"), exit_code=4)
    now = lab.world.clock.now()
    changes = record_changes(lab.actual(), now, "me")
    charge, held, put, event = changes
    assert isinstance(charge, Charge) and isinstance(held, Allocation)
    assert isinstance(put, PutRecord) and isinstance(event, Event)
    assert (put.record.phase, put.record.result, put.record.exit_codes) == (
        "TERMINATED",
        "failure",
        {"main1": 4},
    )
    assert (event.before, event.after, event.cause) == ("RUNNING", "TERMINATED", "main1 exited with 4")
    lease = lab.store.acquire("here", "me", 60, now)
    lab.store.write(lease, changes)
    lab.store.release(lease)
    assert record_changes(lab.actual(), now + 9, "me") == ()


def test_an_observation_with_gaps_is_not_written_down(lab: Lab) -> None:
    lab.world.die(lab.kernel("a"))
    lab.world.hidden.add(lab.kernel("b"))
    assert record_changes(lab.actual(), 1.0, "me") == ()


def test_a_restored_old_store_does_not_win_over_what_runs(lab: Lab) -> None:
    old = lab.state.with_name("old.db")
    lab.store.backup(old)
    lab.write({"b": session("b", "env: {A: b}")})
    assert not lab.converge().changes
    lab.store.close()
    lab.state.write_bytes(old.read_bytes())
    for side in ("-wal", "-shm"):
        lab.state.with_name(lab.state.name + side).unlink(missing_ok=True)
    lab.store = type(lab.store).open(lab.state)
    assert lab.actual().existing["Session/p/b"].recorded.generation == 2
    made = list(lab.world.created)
    assert not lab.converge().changes
    assert lab.world.created == made


def test_steps_follow_from_the_plan_alone(lab: Lab) -> None:
    lab.write({"b": session("b", "env: {A: b}, stop: {grace: 3s}")})
    plan = lab.plan()
    todo = action_steps(action(plan, "Session/p/b"), plan)
    assert [(step.kind, step.record.phase if step.record else "") for step in todo] == [
        ("record", "TERMINATING"),
        ("stop", ""),
        ("remove", ""),
        ("record", "CREATING"),
        ("create", ""),
        ("record", "RUNNING"),
    ]
    assert len({step.key for step in todo}) == len(todo)
    spec = todo[4].spec
    assert (
        spec and record_from_labels([_seen(spec.labels)]).document == lab.desired().documents["Session/p/b"]
    )
    assert action_steps(action(plan, "Session/p/a"), plan) == ()


def _seen(labels: Labels) -> Observed:
    return Observed("k", labels, "running", created=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("phase", "old", "expected"),
    [
        ("PENDING", None, (None, None)),
        ("RUNNING", None, (50.0, None)),
        ("RUNNING", ("RUNNING", 10.0, None, 1), (10.0, None)),
        ("RUNNING", ("TERMINATED", 10.0, 20.0, 0), (50.0, None)),
        ("TERMINATED", ("RUNNING", 10.0, None, 1), (10.0, 50.0)),
        ("TERMINATED", ("ERROR", 10.0, 20.0, 1), (10.0, 20.0)),
        ("TERMINATED", ("TERMINATED", 10.0, 20.0, 0), (None, 50.0)),
    ],
)
def test_a_record_keeps_the_times_of_its_generation(
    phase: Phase,
    old: tuple[Phase, float | None, float | None, int] | None,
    expected: tuple[float | None, float | None],
) -> None:
    before = None
    if old is not None:
        was, started, finished, generation = old
        before = Recorded(
            "Session/p/x", "here", generation, "d", phase=was, started_at=started, finished_at=finished
        )
    found = with_times(Recorded("Session/p/x", "here", 1, "d", phase=phase), before, 50.0)
    assert (found.started_at, found.finished_at) == expected
