"""Places that are held for services: who gets them, who is lent them, and who cannot take them away."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.model.service_replica import ServiceReplica
from planner.model.types import (
    GroupInfo,
    NodeInfo,
    NodeReservation,
    Outcome,
    Placement,
    QuotaLimit,
    Running,
    SessionRequest,
    Snapshot,
)
from planner.nodes.node_table import MapperCache, NodeTable
from tests.planner.support import GIB, machine, node, place, session

WEB = "Service/p/web"
TWO = machine(numa=1, cores=8, gpus=2)
GROUP = GroupInfo("main")


def held_request(number: int, gpus: int = 1, service: str = WEB, **more: object) -> SessionRequest:
    name = service.rpartition("/")[2]
    replica = ServiceReplica(service, "g1", held=True)
    return session(f"Headroom/p/{name}-{number}", gpus=gpus, replica_of=replica, project="p", **more)  # type: ignore[arg-type]


def replica(name: str, gpus: int = 1, **more: object) -> SessionRequest:
    return session(name, gpus=gpus, replica_of=ServiceReplica(WEB, "g1"), project="p", **more)  # type: ignore[arg-type]


def batch(name: str, gpus: int = 1, **more: object) -> SessionRequest:
    return session(name, gpus=gpus, **({"preemptible": True, "type": "batch"} | more))  # type: ignore[arg-type]


class Cluster:
    """Plans one after another, each carried out."""

    def __init__(self, nodes: tuple[NodeInfo, ...], places: int = 0, **more: object) -> None:
        self.nodes, self.places, self.more = nodes, places, more
        self.running: tuple[Running, ...] = ()
        self.held: tuple[Running, ...] = ()
        self.last = 0
        self.now = 1000.0

    def plan(self, *pending: SessionRequest, gpus: int = 1) -> Outcome:
        wanted = [held_request(self.last + at + 1, gpus) for at in range(self.places)]
        given_ = {"groups": (GROUP,), "now": self.now} | self.more
        snapshot = Snapshot(
            self.nodes, running=self.running, held=self.held, pending=(*pending, *wanted), **given_  # type: ignore[arg-type]
        )  # fmt: skip
        outcome = place(snapshot)
        check(snapshot, outcome)
        gone = {one.session for one in outcome.evictions}
        requests = {one.id: one for one in pending}
        stay = [one for one in self.running if one.request.id not in gone]
        started = [Running(requests[one.session], one, self.now) for one in outcome.placements]
        self.running, self.held = (*stay, *started), outcome.held
        numbers = [int(one.request.id.rpartition("-")[2]) for one in self.held]
        self.last, self.now = max([self.last, *numbers]), self.now + 60
        return outcome

    def end(self, *names: str) -> None:
        self.running = tuple(one for one in self.running if one.request.id not in names)


def check(snapshot: Snapshot, outcome: Outcome) -> None:
    """From first principles: what runs and what is held beside those who would not give way never need more
    than there is."""
    gone = {one.session for one in outcome.evictions}
    stay = [one.placement for one in snapshot.running if one.request.id not in gone]
    real = [*stay, *outcome.placements]
    names = {one.request.id for one in outcome.held}
    firm = [one for one in real if not names.intersection(one.lent)]
    _fits(snapshot, real)
    _fits(snapshot, [*firm, *(one.placement for one in outcome.held)])
    lent = {one.request.id for one in snapshot.running if one.placement.lent}
    if all(group.preemption is None for group in snapshot.groups):
        assert gone <= lent, "only who was lent a place gives way"


def _fits(snapshot: Snapshot, placements: list[Placement]) -> None:
    for each in snapshot.nodes:
        parts = [kernel for one in placements for kernel in one.kernels if kernel.node == each.name]
        cpus = [cpu for part in parts for cpu in part.cpus]
        devices = [grant.id for part in parts for grant in part.devices if grant.milli == 1000]
        assert len(set(cpus)) == len(cpus) and len(set(devices)) == len(devices)
        total = sum(numa.memory for numa in each.hardware.numa_nodes)
        assert sum(part.memory for part in parts) <= total - each.reserved_memory
        milli = sum(part.cpu_milli for part in parts)
        assert milli <= 1000 * sum(len(numa.cpus) for numa in each.hardware.numa_nodes)


def evicted(outcome: Outcome) -> list[str]:
    return sorted(one.session for one in outcome.evictions)


def placed(outcome: Outcome) -> list[str]:
    return sorted(one.session for one in outcome.placements)


def devices(one: Placement) -> set[tuple[str, str]]:
    return {(kernel.node, grant.id) for kernel in one.kernels for grant in kernel.devices}


def test_a_held_place_is_exact_stays_and_is_nobody_elses() -> None:
    cluster = Cluster((node("a", TWO),), places=1)
    first = cluster.plan()
    assert [devices(one.placement) for one in first.held] and not first.placements and not first.waits
    second = cluster.plan(session("big", gpus=2))
    assert second.held == first.held, "it stays where it is"
    (wait,) = second.waits
    assert wait.reasons[-1].code == "headroom"
    assert wait.reasons[-1].message == f"held for {WEB}: 1 GPU, 1 core, 1 GiB on a"
    assert placed(cluster.plan(session("small", gpus=1))) == ["small"]
    full = cluster.plan(session("one", gpus=1))
    assert full.held == first.held and [one.session for one in full.waits] == ["one"]


def test_a_replica_takes_the_place_at_once_whoever_waits_before_it() -> None:
    cluster = Cluster((node("a", TWO),), places=1, groups=(GroupInfo("main", queue_options={"maxSkips": 0}),))
    cluster.plan(replica("r1"))
    before = cluster.held[0].placement
    outcome = cluster.plan(session("head", gpus=2, priority=900), replica("r2", enqueued=500.0))
    assert placed(outcome) == ["r2"]
    assert devices(outcome.placements[0]) == devices(before)
    assert outcome.held == () and [one.reasons[0].code for one in outcome.unheld] == ["head-of-line"]


def test_a_batch_session_is_lent_it_and_gives_way_whatever_its_priority() -> None:
    cluster = Cluster((node("a", TWO),), places=1)
    cluster.plan(replica("r1"))
    lent = cluster.plan(batch("job", priority=900))
    assert lent.placements[0].lent == (cluster.held[0].request.id,)
    assert cluster.plan().held == lent.held, "it is held on"
    outcome = cluster.plan(replica("r2"))
    assert evicted(outcome) == ["job"] and placed(outcome) == ["r2"]
    assert outcome.evictions[0].why == "r2 takes the place that it was lent"
    cluster.end("r2")
    again = cluster.plan(batch("job", priority=900))
    assert placed(again) == ["job"] and len(again.held) == 1 and again.placements[0].lent


def test_it_is_lent_only_where_nothing_else_is_free() -> None:
    cluster = Cluster((node("a", TWO), node("b", TWO)), places=1)
    cluster.plan()
    outcome = cluster.plan(*(batch(f"job{at}") for at in range(4)))
    assert len(outcome.placements) == 4
    assert sum(bool(one.lent) for one in outcome.placements) == 1


@pytest.mark.parametrize(
    "change", [{"preemptible": False}, {"replica_of": ServiceReplica("Service/p/other")}]
)
def test_it_is_not_lent_to_who_would_not_give_way(change: dict[str, object]) -> None:
    cluster = Cluster((node("a", TWO),), places=2)
    cluster.plan()
    outcome = cluster.plan(batch("job", **change))
    assert placed(outcome) == [] and len(outcome.held) == 2


def test_no_more_go_than_have_to_and_the_cheapest_first() -> None:
    cluster = Cluster((node("a", machine(numa=1, cores=16, gpus=4)),), places=2)
    cluster.plan(replica("r1", gpus=2), gpus=1)
    jobs = (batch("dear", priority=90), batch("cheap", priority=5))
    assert len(cluster.plan(*jobs).placements) == 2
    outcome = cluster.plan(replica("r2"))
    assert evicted(outcome) == ["cheap"]


def test_nobody_goes_where_the_replica_has_room_beside() -> None:
    """Its room is given up in place of the held one."""
    cluster = Cluster((node("a", TWO), node("b", TWO)), places=2)
    cluster.plan(session("x", gpus=2))
    cluster.plan(batch("job"))
    cluster.end("x")
    outcome = cluster.plan(replica("r1"))
    assert evicted(outcome) == [] and placed(outcome) == ["r1"]


def test_holding_pushes_nobody_out() -> None:
    """Attack: a service whose head-room grows over others' preemptible sessions."""
    cluster = Cluster((node("a", TWO),))
    cluster.plan(batch("job", gpus=2, priority=50))
    cluster.places = 2
    outcome = cluster.plan()
    assert outcome.held == () and {one.reasons[0].code for one in outcome.unheld} == {"no-capacity"}
    later = cluster.plan(replica("r1", priority=900))
    assert evicted(later) == [] and placed(later) == []


def test_what_waited_before_has_its_turn_before() -> None:
    """Attack: head-room that overtakes the queue."""
    cluster = Cluster((node("a", TWO),), groups=(GroupInfo("main", queue_options={"maxSkips": 0}),))
    cluster.plan(session("x", gpus=1))
    waiting = session("early", gpus=2, enqueued=-10.0)
    cluster.plan(waiting)
    cluster.places = 1
    outcome = cluster.plan(waiting)
    assert outcome.held == () and outcome.unheld[0].reasons[0].code == "head-of-line"
    cluster.end("x")
    assert placed(cluster.plan(waiting)) == ["early"]


def test_quotas_count_what_is_held() -> None:
    """Attack: a project that hoards."""
    quota = QuotaLimit("of-p", "project", "p", slots={"cuda.device": 2})
    cluster = Cluster((node("a", machine(gpus=8)),), places=5, quotas=(quota,))
    outcome = cluster.plan()
    assert len(outcome.held) == 2
    assert {one.reasons[0].code for one in outcome.unheld} == {"quota"}
    use = cluster.plan().quotas[0]
    assert (use.before["cuda.device"], use.after["cuda.device"]) == (2, 2)
    taken = cluster.plan(replica("r1"))
    assert placed(taken) == ["r1"] and len(taken.held) == 1, "the replica takes its part of the quota, too"
    cluster.more["quotas"] = (replace(quota, slots={"cuda.device": 1}),)
    assert cluster.plan().held == (), "a smaller quota takes what is held"


@pytest.mark.parametrize(
    ("bound", "count"), [({"held_percent": 25}, 2), ({"held_most": {"cuda.device": 3}}, 3)]
)
def test_a_group_bounds_what_is_held_in_it(bound: dict[str, object], count: int) -> None:
    group = replace(GROUP, **bound)  # type: ignore[arg-type]
    cluster = Cluster((node("a", machine(gpus=8)),), places=5, groups=(group,))
    outcome = cluster.plan()
    assert len(outcome.held) == count
    assert outcome.unheld[0].reasons[0].message.startswith("group main lets services hold")
    assert len(cluster.plan().held) == count


@pytest.mark.parametrize("state", ["cordoned", "drained", "unreachable", "unprovisioned"])
def test_a_place_leaves_a_node_that_takes_nothing(state: str) -> None:
    cluster = Cluster((node("a", TWO), node("b", TWO)), places=1)
    where = cluster.plan().held[0].placement.kernels[0].node
    cluster.nodes = tuple(replace(one, state=state) if one.name == where else one for one in cluster.nodes)  # type: ignore[arg-type]
    moved = cluster.plan().held
    assert [one.placement.kernels[0].node for one in moved] == [({"a", "b"} - {where}).pop()]


def test_a_place_is_not_held_under_what_others_took_there() -> None:
    """Such as pods that are not bai's."""
    cluster = Cluster((node("a", TWO),), places=1)
    outcome = cluster.plan()
    other = replace(outcome.held[0].placement, session="Foreign/x@a")
    cluster.running = (Running(session("Foreign/x@a", gpus=1), other),)
    moved = cluster.plan().held
    assert len(moved) == 1 and not devices(moved[0].placement) & devices(other)


def test_reservations_and_closed_groups_hold_for_places_too() -> None:
    reserved = NodeReservation("r", frozenset({"a"}), frozenset({"q"}), 0.0, 1e9)
    groups = (
        GroupInfo("main", reservations=(reserved,)),
        GroupInfo("main", allowed_projects=frozenset({"q"})),
    )
    for group in groups:
        assert Cluster((node("a", TWO),), places=1, groups=(group,)).plan().held == ()


def test_another_generation_takes_the_place_over_in_its_turn() -> None:
    cluster = Cluster((node("a", TWO),), places=1)
    cluster.plan()
    old = cluster.held[0].request
    grown = replace(old, replica_of=ServiceReplica(WEB, "g0", held=True))
    cluster.held = (replace(cluster.held[0], request=grown),)
    (held,) = cluster.plan().held
    assert held.request.replica_of is not None and held.request.replica_of.generation == "g1"


def test_gangs_are_held_whole() -> None:
    cluster = Cluster((node("a", TWO), node("b", TWO)))
    wanted = held_request(1, gpus=2, kernels=2, multi_node=True)
    outcome = place(Snapshot(cluster.nodes, (GROUP,), pending=(wanted,)))
    assert [kernel.node for kernel in outcome.held[0].placement.kernels] == ["a", "b"]
    after = Snapshot(
        cluster.nodes, (GROUP,), held=outcome.held, pending=(wanted, batch("j"), session("s", gpus=1))
    )
    again = place(after)
    check(after, again)
    assert placed(again) == ["j"] and again.held == outcome.held


def test_shared_cores_and_memory_alone_are_lent_as_well() -> None:
    cpu = machine(numa=1, cores=4, gpus=0, memory=8 * GIB)
    more = {"exclusive_cpus": False, "cpu": 2, "gpus": 0}
    one = replace(held_request(1, **more), id="Headroom/p/web-1")  # type: ignore[arg-type]
    two = replace(one, id="Headroom/p/web-2")
    first = place(Snapshot((node("a", cpu),), (GROUP,), pending=(one, two)))
    assert len(first.held) == 2
    wanted = (replace(one, id="Headroom/p/web-3"), replace(one, id="Headroom/p/web-4"))
    jobs = tuple(batch(f"j{at}", **more) for at in range(3))
    second = place(Snapshot((node("a", cpu),), (GROUP,), held=first.held, pending=(*wanted, *jobs)))
    assert placed(second) == ["j0", "j1"] and len(second.held) == 2
    running = tuple(Running(jobs[at], second.placements[at], 0.0) for at in range(2))
    asked = Snapshot(
        (node("a", cpu),), (GROUP,), running=running, held=first.held, pending=(*wanted, replica("r", **more))
    )
    third = place(asked)
    check(asked, third)
    assert placed(third) == ["r"] and len(third.evictions) == 1 and len(third.held) == 1


_STEP = st.tuples(
    st.sampled_from(["batch", "firm", "replica", "end", "places"]),
    st.integers(0, 3), st.integers(1, 3), st.booleans(), st.integers(0, 20),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(_STEP, min_size=1, max_size=12))
def test_whatever_comes_and_goes_nothing_is_given_twice(steps: list[tuple[str, int, int, bool, int]]) -> None:
    small = machine(numa=2, cores=4, gpus=4, memory=16 * GIB)
    cluster = Cluster((node("a", small), node("b", small)), places=1)
    for at, (what, gpus, cpu, exclusive, priority) in enumerate(steps):
        more = {"cpu": cpu, "exclusive_cpus": exclusive, "priority": priority, "memory": cpu * GIB}
        if what == "end":
            cluster.end(*(one.request.id for one in cluster.running[: gpus + 1]))
            cluster.plan()
        elif what == "places":
            cluster.places = gpus
            cluster.held = cluster.held[:gpus]
            cluster.plan()
        else:
            make = {"batch": batch, "firm": session, "replica": replica}[what]
            cluster.plan(make(f"s{at}", gpus=gpus, **more))  # type: ignore[operator]


def test_states_in_common_hold_what_fits_in_both() -> None:
    """Parts of devices, memory and shared cores."""
    table = NodeTable((node("a", TWO),), MapperCache())
    first = place(Snapshot((node("a", TWO),), (GROUP,), pending=(session("x", shares=400),)))
    table.restore(0, "x", first.placements[0].kernels[0])
    held = replace(first.placements[0], session="Headroom/p/web-1")
    table.lent.add("x")
    assert table.hold_place(held), "under what gives way"
    assert table.states[0] == table.state_without(0, {"Headroom/p/web-1"})
    table.drop_place(held)
    table.lent.clear()
    assert not table.hold_place(held), "the cores are taken"


def test_a_replica_that_starts_again_takes_no_place() -> None:
    """It gives up its own, which it is given again."""
    cluster = Cluster((node("a", TWO),), places=1)
    cluster.plan()
    before = cluster.held
    again = replica("r1")
    assert again.replica_of is not None
    outcome = cluster.plan(replace(again, replica_of=replace(again.replica_of, restarts=True)))
    assert placed(outcome) == ["r1"] and outcome.held == before


def test_a_hundred_places_that_cannot_be_held_are_told_once() -> None:
    """Attack: a plan that takes long for what is wanted in vain."""
    cluster = Cluster((node("a", TWO),), places=100)
    outcome = cluster.plan(session("x", gpus=2))
    assert len(outcome.held) + len(outcome.unheld) <= 3
