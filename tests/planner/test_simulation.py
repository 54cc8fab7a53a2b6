"""Replays in virtual time, against a `place` of its own at every moment and figures worked out by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.model.types import GroupInfo, NodeReservation, PreemptionRule, QuotaLimit, Running, Snapshot
from planner.simulation.measures import curve, report, size_of
from planner.simulation.replay import replay as replay_by
from planner.simulation.values import Cluster, Job, Replay
from tests.planner.support import BUILT_IN, GIB, machine, node, place, session

MAIN = GroupInfo("main")


def cluster(nodes: int = 1, group: GroupInfo = MAIN, **more: Any) -> Cluster:
    hardware = machine(gpus=8)
    return Cluster(tuple(node(f"n{at}", hardware) for at in range(nodes)), (group,), **more)


def job(name: str, arrival: float, duration: float, checkpoint: bool = False, **more: Any) -> Job:
    return Job(session(name, enqueued=arrival, **more), duration, checkpoint)


def replay(where: Cluster, jobs: Iterable[Job], **options: Any) -> Replay:
    return replay_by(where, jobs, BUILT_IN, **options)


def times(found: Replay) -> dict[str, tuple[float | None, float | None]]:
    return {one.job.request.id: (one.started, one.ended) for one in found.results}


def test_sessions_start_when_there_is_room_and_end_in_their_time() -> None:
    found = replay(cluster(), [job("a", 0, 100, gpus=8), job("b", 10, 50, gpus=4), job("c", 20, 50, gpus=4)])
    assert times(found) == {"a": (0, 100), "b": (100, 150), "c": (100, 150)}
    figures = report(found)
    assert (figures.span, figures.settled, figures.longest_queue) == (150, 100, 2)
    assert figures.waits.mean == pytest.approx((0 + 90 + 80) / 3)
    assert (figures.waits.median, figures.waits.p95, figures.waits.most) == (80, 90, 90)
    assert figures.waits.slowdown == pytest.approx((1 + 140 / 50 + 130 / 50) / 3)
    assert figures.utilisation["devices"] == 1.0
    assert figures.device_hours == pytest.approx(8 * 150 / 3600)
    assert figures.busy == 1.0
    assert figures.by_size["4 GPUs"].sessions == 2


def test_who_is_in_the_way_is_what_the_policy_says() -> None:
    jobs = [
        job("a", 0, 100, gpus=5, timeout=100),
        job("big", 1, 50, gpus=8, timeout=50),
        job("short", 2, 20, gpus=2, timeout=20),
        job("long", 3, 200, gpus=2, timeout=200),
    ]

    def starts(**options: object) -> dict[str, float | None]:
        found = replay(cluster(group=replace(MAIN, queue_options=options)), jobs)
        return {one.job.request.id: one.started for one in found.results}

    assert starts() == {"a": 0, "short": 2, "big": 222, "long": 22}
    assert starts(maxSkips=0) == {"a": 0, "big": 100, "short": 150, "long": 150}
    assert starts(maxSkips=0, backfill=True) == {"a": 0, "big": 100, "short": 2, "long": 150}


def test_whoever_is_pushed_out_starts_over_or_goes_on() -> None:
    group = replace(MAIN, preemption=PreemptionRule(30.0))
    low: dict[str, Any] = {"gpus": 8, "priority": 1, "preemptible": True}
    for checkpoint, ends, lost in ((False, 150.0, 40.0), (True, 110.0, 0.0)):
        jobs = [job("low", 0, 100, checkpoint, **low), job("high", 40, 10, gpus=8, priority=5)]
        found = replay(cluster(group=group), jobs)
        assert times(found) == {"low": (0, ends), "high": (40, 50)}
        figures = report(found)
        assert figures.preemptions == 1
        assert figures.lost_device_hours == pytest.approx(lost * 8 / 3600)
    soon = [job("low", 0, 100, **low), job("high", 10, 10, gpus=8, priority=5)]
    assert times(replay(cluster(group=group), soon))["high"] == (30, 40)  # the minimum run is waited for


def test_timeouts_patience_and_moments() -> None:
    impatient = replace(MAIN, queue_options={"pendingTimeout": 30})
    jobs = [job("a", 0, 100, gpus=8, timeout=60), job("b", 5, 10, gpus=8), job("c", 40, 10, gpus=1)]
    found = replay(cluster(group=impatient), jobs)
    assert times(found) == {"a": (0, 60), "b": (None, 35), "c": (60, 70)}
    assert report(found).gave_up == 1
    later = Job(session("later", starts_at=500.0), 10)
    assert times(replay(cluster(), [later])) == {"later": (500, 510)}
    kept = NodeReservation("course", frozenset({"n0"}), frozenset({"school"}), 0.0, 300.0)
    reserved = replace(MAIN, reservations=(kept,))
    assert times(replay(cluster(group=reserved), [job("a", 10, 10, project="other")])) == {"a": (300, 310)}


def test_dependencies_are_waited_for() -> None:
    wanted = [
        Job(session("train", enqueued=1.0, depends_on=frozenset({"prep", "serve"})), 10),
        Job(session("prep", type="batch"), 100),
        Job(session("serve", enqueued=50.0), 500),
    ]
    assert times(replay(cluster(), wanted))["train"] == (100, 110)


def test_whoever_never_starts_is_counted_with_its_reason() -> None:
    quota = QuotaLimit("small", "project", "vision", slots={"cuda.device": 2})
    jobs = [
        job("huge", 0, 10, gpus=9),
        job("over", 0, 10, gpus=4, project="vision"),
        job("fits", 0, 10, gpus=2, project="vision"),
    ]
    found = replay(cluster(quotas=(quota,)), jobs)
    assert found.causes == {"impossible": 1, "quota": 1}
    assert (report(found).finished, report(found).waiting) == (1, 2)


def test_until_stops_in_the_midst() -> None:
    jobs = [job(name, when, 100, gpus=8) for name, when in (("a", 100), ("b", 110), ("c", 120), ("d", 900))]
    figures = report(replay(cluster(), jobs, until=150))
    assert (figures.span, figures.settled, figures.sessions) == (150, 150, 3)
    assert (figures.finished, figures.running, figures.waiting) == (1, 1, 1)
    longer = report(replay(cluster(), jobs, until=250)).waits.slowdown
    assert longer == pytest.approx((1 + 190 / 100) / 2), "only what has finished tells how long it took"


def test_one_of_twenty_may_wait_longer_than_the_95th_percentile() -> None:
    """Each waits for those before it, ten seconds each."""
    jobs = [job(f"j{at:02}", 0, 10, gpus=8) for at in range(20)]
    waits = report(replay(cluster(), jobs)).waits
    assert (waits.median, waits.p95, waits.most) == (95, 180, 190)


def test_without_devices_only_cores_and_memory_are_used() -> None:
    plain = Cluster((node("n0", machine(numa=1, cores=4, gpus=0, memory=8 * GIB)),), (MAIN,))
    figures = report(replay(plain, [job("a", 0, 10, cpu=3, memory=2 * GIB)]))
    assert figures.utilisation == {"cpu": 0.75, "mem": 0.25}
    assert (figures.device_hours, figures.fragmentation, figures.largest) == (0, 0, 0)


def test_locality_is_measured_against_an_empty_cluster() -> None:
    """Two sessions of five GPUs' worth of cores: the second has to be split, the eight-GPU one always is."""
    jobs = [job("a", 0, 100, gpus=3), job("b", 0, 100, gpus=3), job("c", 0, 100, gpus=2)]
    figures = report(replay(cluster(), jobs))
    assert (figures.placed, figures.one_numa, figures.kept_together) == (3, 2, 2)
    whole = report(replay(cluster(), [job("w", 0, 100, gpus=8)]))
    assert (whole.one_numa, whole.kept_together) == (0, 1)


def test_fragmentation_counts_what_is_free_beside_others() -> None:
    found = replay(cluster(2), [job("a", 0, 100, gpus=2), job("b", 100, 100, gpus=8)])
    assert [(x, round(y)) for x, y in curve(found, found.samples.fragmented, 200, 2)] == [
        (50, 6000),
        (150, 0),
    ]
    assert report(found).fragmentation_most == 6 / 16
    assert size_of(session("x", shares=500)) == "part of a GPU"


ASKS = st.tuples(
    st.integers(0, 60),  # arrival
    st.integers(0, 40),  # duration
    st.sampled_from(({"gpus": 1}, {"gpus": 4}, {"gpus": 8}, {"shares": 300}, {"gpus": 0, "cpu": 6})),
    st.sampled_from(("ada", "emil", "noor")),
    st.integers(1, 3),  # priority
    st.booleans(),  # preemptible
)
GROUPS = [
    replace(MAIN, queue=queue, selection=selection, queue_options=options, preemption=rule)
    for queue, selection in itertools.product(
        ("fifo", "drf", "fair-share"), ("roundrobin", "least-fragmentation")
    )
    for options, rule in (
        ({"maxSkips": 1}, None),
        ({}, PreemptionRule(5.0)),
        ({"maxSkips": 0, "backfill": True}, None),
    )
]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from(GROUPS), st.lists(ASKS, min_size=1, max_size=14))
def test_a_replay_is_what_place_says_at_every_moment(group: GroupInfo, asks: list[Any]) -> None:
    """A reader that rebuilds the snapshot at every moment and asks `place` sees the same starts."""
    jobs = [
        job(f"s{at:02}", when, runs, user=user, priority=priority, preemptible=out, timeout=60.0, **sizes)
        for at, (when, runs, sizes, user, priority, out) in enumerate(asks)
    ]
    where = cluster(2, group)
    found = replay(where, jobs, fresh=True)
    assert found == replay(where, list(reversed(jobs)), fresh=True)
    assert {one.state for one in found.results} == {"finished"}
    if group.queue != "fair-share":  # its history is the replay's own
        assert _first_starts(where, jobs) == {one.job.request.id: one.started for one in found.results}


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.sampled_from(GROUPS), st.lists(ASKS, min_size=1, max_size=10))
def test_a_plan_from_a_fresh_snapshot_says_the_same(group: GroupInfo, asks: list[Any]) -> None:
    """What groups that pack the whole queue are replayed by, on groups that do not."""
    jobs = [
        job(f"s{at:02}", when, runs, user=user, priority=priority, preemptible=out, timeout=60.0, **sizes)
        for at, (when, runs, sizes, user, priority, out) in enumerate(asks)
    ]
    usual = replay(cluster(2, group), jobs, fresh=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.simulation.incremental_planner.packs_whole_queue", lambda _: True)
        assert replay(cluster(2, group), jobs).results == usual.results


def _first_starts(where: Cluster, jobs: list[Job]) -> dict[str, float]:
    """The same in the plainest way: a snapshot of its own at every second."""
    waiting: dict[str, Any] = {}
    running: dict[str, tuple[Running, float]] = {}
    started: dict[str, float] = {}
    durations = {one.request.id: one.duration for one in jobs}
    requests = {one.request.id: one.request for one in jobs}
    now, done = 0.0, 0
    while done < len(jobs):
        again = True
        while again:  # sessions of no length end at the moment at which they start
            ended = [name for name, (_, end) in running.items() if end == now]
            done += len(ended)
            for name in ended:
                del running[name]
            waiting |= {n: r for n, r in requests.items() if r.enqueued == now and n not in started | waiting}
            asked = Snapshot(
                where.nodes, where.groups, (), tuple(one for one, _ in running.values()),
                tuple(waiting.values()), now,
            )  # fmt: skip
            outcome = place(asked) if waiting else None
            for gone in outcome.evictions if outcome else ():
                del running[gone.session]
                waiting[gone.session] = requests[gone.session]
            for placement in outcome.placements if outcome else ():
                request = waiting.pop(placement.session)
                started.setdefault(request.id, now)
                running[request.id] = (Running(request, placement, now), now + durations[request.id])
            for wait in outcome.waits if outcome else ():
                waiting[wait.session] = replace(waiting[wait.session], skips=wait.skips)
            again = any(end == now for _, end in running.values()) or bool(outcome and outcome.evictions)
        now += 1
    return started
