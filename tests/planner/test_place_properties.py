"""What must hold for every plan, on random clusters and queues."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.model.types import (
    Fractional,
    GroupInfo,
    NodeReservation,
    PreemptionRule,
    QuotaLimit,
    Running,
    Snapshot,
)
from tests.planner.audit import audit
from tests.planner.support import GIB, machine, node, place, session

MACHINES = (
    machine(numa=1, cores=4, gpus=2),
    machine(numa=2, cores=6, gpus=8),
    machine(numa=2, cores=4, gpus=3, threads=2, nvlink=False),
    machine(numa=4, cores=3, gpus=4, isolated_cpus=(1,), offline_cpus=(2,)),
    machine(numa=8, cores=2, gpus=8, nvlink=False),
    machine(numa=2, cores=8, gpus=0),
    machine(numa=2, cores=8, gpus=2, hugepages={"2Mi": 6 * GIB, "1Gi": 200 * GIB}),
    machine(numa=1, cores=4, gpus=0, hugepages={"2Mi": 3 << 20}),
)
HUGEPAGES = (
    {}, {}, {"hugepages-2Mi": 2 << 20}, {"hugepages-2Mi": 4 * GIB}, {"hugepages-1Gi": 60 * GIB},
    {"hugepages-2Mi": 1, "hugepages-1Gi": GIB},
)  # fmt: skip


RESERVED = (
    NodeReservation("now", frozenset({"n0"}), frozenset("p"), 0.0, 500.0),
    NodeReservation("soon", frozenset({"n1", "n9"}), frozenset("q"), 400.0, 900.0),
)


@st.composite
def nodes(draw: st.DrawFn):
    count = draw(st.integers(1, 5))
    return tuple(
        node(
            f"n{at}",
            draw(st.sampled_from(MACHINES)),
            state=draw(st.sampled_from(["active"] * 6 + ["cordoned"])),
            reserved_cpus=draw(st.sampled_from([(), (0,), (0, 5)])),
            reserved_memory=draw(st.sampled_from([0, GIB, 100 * GIB])),
            unhealthy=draw(st.sampled_from([frozenset(), frozenset({"GPU-0"})])),
        )
        for at in range(count)
    )


@st.composite
def requests(draw: st.DrawFn, prefix: str):
    count = draw(st.integers(0, 12))
    found = []
    for at in range(count):
        multi = draw(st.booleans())
        kind = draw(st.sampled_from(["cpu", "gpu", "share"]))
        found.append(
            session(
                f"{prefix}{at}",
                cpu=draw(st.integers(0, 10)),
                memory=draw(st.sampled_from([0, 1, GIB, 100 * GIB, 300 * GIB])),
                gpus=draw(st.integers(1, 8)) if kind == "gpu" else 0,
                shares=draw(st.sampled_from([1, 250, 333, 500, 1000, 1500, 2600])) if kind == "share" else 0,
                kernels=draw(st.integers(1, 3)),
                hugepages=draw(st.sampled_from(HUGEPAGES)),
                multi_node=multi,
                exclusive_cpus=draw(st.booleans()),
                user=draw(st.sampled_from("ab")),
                project=draw(st.sampled_from("pq")),
                priority=draw(st.sampled_from([0, 10, 10, 20])),
                preemptible=draw(st.booleans()),
                enqueued=float(draw(st.integers(0, 5))),
                timeout=draw(st.sampled_from([None, 60.0, 600.0])),
                starts_at=draw(st.sampled_from([None, None, None, 50.0, 130.0])),
                numa=draw(st.sampled_from([None, "interleaving"])),
            )
        )
    return tuple(found)


@st.composite
def snapshots(draw: st.DrawFn):
    group = GroupInfo(
        "main",
        queue=draw(st.sampled_from(["fifo", "lifo", "drf", "fair-share"])),
        queue_options={
            "maxSkips": draw(st.sampled_from([None, 0, 2])),
            "backfill": draw(st.booleans()),
        },
        selection=draw(st.sampled_from(["concentrated", "dispersed", "roundrobin", "least-fragmentation"])),
        fractional=Fractional(
            shares_per_device=draw(st.sampled_from([1, 2])),
            quantum=draw(st.sampled_from([1, 10, 250])),
            spread=draw(st.sampled_from(["fill", "even"])),
        ),
        preemption=draw(st.sampled_from([None, PreemptionRule(), PreemptionRule(98.0)])),
        reservations=draw(st.sampled_from([(), (), RESERVED])),
    )
    quotas = (
        QuotaLimit(
            "a", "user", "a", slots={"cpu": draw(st.integers(0, 40_000))}, concurrent=draw(st.integers(0, 9))
        ),
        QuotaLimit("p", "project", "p", slots={"cuda.device": draw(st.integers(0, 12))}),
    )
    lent = tuple(
        QuotaLimit(
            name,
            "project",
            name,
            slots={"cuda.device": draw(st.integers(0, 8)), "cpu": draw(st.integers(0, 20_000))},
            cohort="all",
            borrowing=draw(st.sampled_from([None, {}, {"cuda.device": 3}])),
        )
        for name in "pq"
    )
    chosen = draw(st.sampled_from([(), quotas, lent, lent]))
    first = Snapshot(draw(nodes()), (group,), pending=draw(requests("run")), now=100.0)
    outcome = place(first)
    by_id = {one.id: one for one in first.pending}
    running = tuple(
        Running(by_id[one.session], one, started=float(at))
        for at, one in enumerate(outcome.placements)
        if draw(st.booleans())
    )
    return Snapshot(first.nodes, (group,), chosen, running, draw(requests("new")), now=100.0)


@settings(max_examples=60, deadline=None)
@given(snapshots())
def test_nothing_is_given_twice_and_everything_is_placed_or_explained(snapshot: Snapshot) -> None:
    audit(snapshot, place(snapshot))


@settings(max_examples=15, deadline=None)
@given(snapshots(), st.randoms(use_true_random=False))
def test_the_same_snapshot_gives_the_same_outcome_in_any_order_of_the_queue(
    snapshot: Snapshot, random
) -> None:
    shuffled = list(snapshot.pending)
    random.shuffle(shuffled)
    again = dataclasses.replace(snapshot, pending=tuple(shuffled))
    assert repr(place(snapshot)) == repr(place(again)) == repr(place(snapshot))


@settings(max_examples=15, deadline=None)
@given(snapshots())
def test_finite_work_all_runs(snapshot: Snapshot) -> None:
    """Whatever waits for room is placed once everything else has ended, in finitely many plans."""
    groups = tuple(dataclasses.replace(one, reservations=()) for one in snapshot.groups)
    asked = tuple(dataclasses.replace(one, starts_at=None) for one in snapshot.pending)
    waiting = dataclasses.replace(snapshot, groups=groups, quotas=(), running=(), pending=asked)
    outcome = place(waiting)
    while outcome.placements:
        left = {one.session for one in outcome.waits}
        pending = tuple(one for one in waiting.pending if one.id in left)
        waiting = dataclasses.replace(waiting, pending=pending)
        outcome = place(waiting)
    codes = {reason.code for wait in outcome.waits for reason in wait.reasons}
    assert codes <= {"impossible", "no-node", "preemption", "unhealthy"}


@settings(max_examples=60, deadline=None)
@given(snapshots(), st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=4))
def test_an_outcome_holds_until_it_says(snapshot: Snapshot, parts: list[float]) -> None:
    outcome = place(snapshot)
    assert outcome.valid_until >= snapshot.now
    span = min(outcome.valid_until, snapshot.now + 10_000.0) - snapshot.now
    for part in parts:
        later = snapshot.now + part * span
        if later < outcome.valid_until:
            assert place(dataclasses.replace(snapshot, now=later)) == outcome
