"""Nodes kept for projects, alone and together with the place kept for the head of a queue."""

from __future__ import annotations

from planner.model.types import GroupInfo, NodeReservation, Outcome, Running, SessionRequest, Snapshot
from tests.planner.audit import audit
from tests.planner.support import machine, node, place, session

CPU = machine(numa=1, cores=8, gpus=0)
NODES = (node("a", CPU), node("b", CPU))


def kept(start: float = 0.0, end: float = 3700.0, nodes: str = "a") -> NodeReservation:
    return NodeReservation("exam", frozenset(nodes), frozenset({"course"}), start, end)


def plan(
    reservations: tuple[NodeReservation, ...],
    *pending: SessionRequest,
    held: tuple[Running, ...] = (),
    now: float = 100.0,
    **options: object,
) -> Outcome:
    group = GroupInfo("main", queue_options=options, reservations=reservations)
    snapshot = Snapshot(NODES, (group,), running=held, pending=pending, now=now)
    outcome = place(snapshot)
    audit(snapshot, outcome)
    return outcome


def where(outcome: Outcome) -> dict[str, list[str]]:
    return {one.session: [kernel.node for kernel in one.kernels] for one in outcome.placements}


def test_only_the_named_projects_use_the_nodes() -> None:
    full = [session(f"s{at}", cpu=8, project="other") for at in range(2)]
    outcome = plan((kept(),), *full, session("exam", cpu=8, project="course", enqueued=1.0))
    assert where(outcome) == {"s0": ["b"], "exam": ["a"]}
    alone = plan((kept(),), *full)
    assert [reason.code for reason in alone.waits[0].reasons] == ["no-capacity", "reservation"]
    assert alone.waits[0].reasons[1].message == (
        "node a is kept for project course until 1970-01-01 01:01 UTC (reservation exam)"
    )


def test_before_and_after_its_time() -> None:
    soon = kept(start=1000.0)
    endless, short = session("s", cpu=8), session("s", cpu=8, timeout=900.0)
    both = session("gang", cpu=8, kernels=2, multi_node=True)
    assert where(plan((soon,), endless)) == {"s": ["b"]}
    assert where(plan((soon,), short)) == {"s": ["a"]}
    assert where(plan((soon,), session("s", cpu=8, timeout=901.0))) == {"s": ["b"]}
    wait = plan((soon,), both).waits[0]
    assert wait.reasons[0].message == (
        "node a is kept for project course from 1970-01-01 00:16 UTC on (reservation exam), "
        "and this session has no timeout"
    )
    assert len(where(plan((soon,), both, now=3700.0))["gang"]) == 2
    assert wait.latest == 3700.0


def test_a_session_that_only_a_reservation_holds_back_holds_up_nobody() -> None:
    both = session("gang", cpu=8, kernels=2, multi_node=True)
    outcome = plan((kept(),), both, session("next", cpu=8, enqueued=1.0), maxSkips=0)
    assert where(outcome) == {"next": ["b"]}


def test_a_lack_of_room_is_told_beside_the_reservation() -> None:
    held = session("held", cpu=8, designated=frozenset({"b"}), timeout=500.0)
    first = place(Snapshot(NODES, (GroupInfo("main"),), pending=(held,))).placements
    runs = (Running(held, first[0], 0.0),)
    full = place(Snapshot(NODES, (GroupInfo("main"),), pending=(session("x", cpu=8),), running=runs))
    runs += (Running(session("x", cpu=8), full.placements[0], 0.0),)
    wait = plan((kept(),), session("new", cpu=8), held=runs).waits[0]
    assert [reason.code for reason in wait.reasons] == ["no-capacity", "reservation"]
    assert wait.freed_by == "held" and wait.latest == 500.0


def test_backfill_delays_neither_the_head_nor_a_reservation() -> None:
    """The head waits for b (until 1100). Behind it, a is kept from 600 on, and b is the head's."""
    held = session("held", cpu=6, designated=frozenset({"b"}), timeout=1000.0)
    first = place(Snapshot(NODES, (GroupInfo("main"),), pending=(held,))).placements
    runs = (Running(held, first[0], 100.0),)
    head = session("head", cpu=8, project="other", timeout=5000.0)
    soon = kept(start=600.0, end=9000.0)

    def behind(timeout: float | None, cpu: int, project: str = "other") -> dict[str, list[str]]:
        later = session("later", cpu=cpu, project=project, timeout=timeout, enqueued=1.0)
        return where(plan((soon,), head, later, held=runs, maxSkips=0, backfill=True))

    assert behind(400.0, 8) == {"later": ["a"]}
    assert behind(800.0, 8) == {}
    assert behind(800.0, 2) == {"later": ["b"]}
    assert behind(2000.0, 2) == {}
    assert behind(None, 8, "course") == {"later": ["a"]}


def test_one_place_is_promised_to_one_session() -> None:
    two = [session(f"s{at}", cpu=8, project="other", designated=frozenset("a")) for at in range(2)]
    assert [wait.latest for wait in plan((kept(),), *two).waits] == [3700.0, None]
