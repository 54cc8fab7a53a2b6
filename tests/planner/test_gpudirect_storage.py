"""With GPUDirect Storage every NUMA node that holds an assigned GPU has a core and memory of the session."""

from __future__ import annotations

import random

import pytest

from planner.devices.mapping import Mapper, Mapping
from planner.model.demand import Demand
from planner.model.node_state import ResourceState, domain_room, initial_state
from planner.model.topology import Topology
from planner.model.types import GroupInfo, Snapshot
from tests.planner.support import GIB, machine, node, place, session
from tests.planner.test_mapping_optimum import HARDWARE, device_sets

PLAIN, DIRECT = GroupInfo("main"), GroupInfo("main", gpudirect_storage=True)


def used(group: GroupInfo, cpu: int, **more: object) -> tuple[set[int], tuple[int, ...]]:
    """NUMA nodes with cores, and with memory, of a session of 8 GPUs on a 4+4 node."""
    wanted = session("w", gpus=8, cpu=cpu, memory=4 * GIB, **more)
    (placed,) = place(Snapshot((node("a", machine()),), (group,), pending=(wanted,))).placements
    (kernel,) = placed.kernels
    return {part.node for part in kernel.parts if part.cpu_milli}, kernel.memory_nodes


def test_cores_follow_the_gpus_of_every_numa_node() -> None:
    hardware = machine(numa=4, cores=4, gpus=8)
    wanted = session("w", gpus=7, cpu=4, memory=4 * GIB)
    (placed,) = place(Snapshot((node("a", hardware),), (DIRECT,), pending=(wanted,))).placements
    assert [part.cpu_milli for part in placed.kernels[0].parts] == [1000, 1000, 1000, 1000]
    assert used(DIRECT, 2) == ({0, 1}, (0, 1))
    assert used(DIRECT, 2, numa="interleaving") == ({0, 1}, (0, 1))
    assert used(DIRECT, 2, exclusive_cpus=False) == ({0, 1}, (0, 1))


def test_without_the_rule_cores_stay_near_most_gpus() -> None:
    hardware = machine(numa=4, cores=4, gpus=8)
    wanted = session("w", gpus=8, cpu=2, memory=4 * GIB)
    nodes = (node("a", hardware),)
    (placed,) = place(Snapshot(nodes, (PLAIN,), pending=(wanted,))).placements
    assert len([part for part in placed.kernels[0].parts if part.cpu_milli]) < 4
    assert not place(Snapshot(nodes, (DIRECT,), pending=(wanted,))).placements


def test_too_few_cores_for_the_numa_nodes_do_not_fit() -> None:
    wanted = session("w", gpus=8, cpu=1)
    nodes = (node("a", machine()),)
    assert place(Snapshot(nodes, (PLAIN,), pending=(wanted,))).placements
    (wait,) = place(Snapshot(nodes, (DIRECT,), pending=(wanted,))).waits
    (reason,) = wait.reasons
    assert reason.code == "impossible" and "a core and memory on every NUMA node" in reason.message


def test_what_no_empty_node_holds_does_not_hold_up_the_queue() -> None:
    group = GroupInfo("main", gpudirect_storage=True, queue_options={"maxSkips": 0})
    pending = (session("w", gpus=8, cpu=1), session("x", gpus=1, enqueued=1.0))
    outcome = place(Snapshot((node("a", machine()),), (group,), pending=pending))
    assert [one.session for one in outcome.placements] == ["x"]


@pytest.mark.parametrize("numa", ["prefer-single-node", "interleaving"])
def test_devices_stay_together_where_memory_takes_another_numa_node(numa: str) -> None:
    hardware = machine(numa=2, cores=4, gpus=4, memory=16 * GIB)
    mapper, state = Mapper(Topology(hardware)), initial_state(Topology(hardware), node("a", hardware))
    one = Demand(1, 0, GIB, (("cuda.device", 1),), (), "prefer-single-node", False)
    first = mapper.map(state, one)
    assert first is not None
    both = Demand(1, 0, 12 * GIB, (("cuda.device", 2),), (), numa, False, True)  # type: ignore[arg-type]
    mapping = mapper.map(first.state, both)
    assert mapping is not None
    _check(mapper.topology, mapping)


def test_gpus_beside_taken_cores_are_not_used() -> None:
    hog = session("hog", cpu=8, priority=90)
    wanted = session("w", gpus=4, cpu=2)
    nodes = (node("a", machine()),)
    placed = {one.session: one for one in place(Snapshot(nodes, (DIRECT,), pending=(hog, wanted))).placements}
    taken = {part.node for part in placed["hog"].kernels[0].parts}
    gpus = {int(grant.id[4:]) // 4 for grant in placed["w"].kernels[0].devices}
    assert taken.isdisjoint(gpus)
    more = session("x", gpus=5, cpu=5)
    assert not place(Snapshot(nodes, (DIRECT,), pending=(hog, more))).placements[1:]


def test_sessions_without_gpus_are_not_concerned() -> None:
    wanted = session("w", cpu=1)
    (placed,) = place(Snapshot((node("a", machine()),), (DIRECT,), pending=(wanted,))).placements
    assert len(placed.kernels[0].parts) == 1


@pytest.mark.parametrize("name", [name for name in HARDWARE if name != "asymmetric"])
def test_a_mapping_is_found_exactly_when_there_is_one(name: str) -> None:
    hardware = HARDWARE[name]
    topology = Topology(hardware)
    mapper = Mapper(topology)
    chance = random.Random(7)
    found = 0
    for _ in range(60):
        state = initial_state(topology, node("a", hardware))
        for _ in range(chance.randrange(7)):
            cpu, gpus = chance.choice([0, 1, 2, 4]), chance.choice([0, 1, 2])
            whole = (("cuda.device", gpus),) if gpus else ()
            taken = mapper.map(state, Demand(cpu, 0, GIB, whole, (), "prefer-single-node", False))
            state = taken.state if taken else state
        demand = Demand(
            chance.choice([1, 2, 3, 5]),
            0,
            chance.choice([1, 8]) * GIB,
            (("cuda.device", chance.choice([1, 2, 3, 4])),),
            (),
            chance.choice(["prefer-single-node", "interleaving"]),
            False,
            True,
        )
        mapping = mapper.map(state, demand)
        fewest = _fewest(topology, state, demand)
        assert (mapping is None) == (fewest is None)
        if mapping is not None and fewest is not None:
            found += 1
            _check(topology, mapping)
            if demand.numa == "prefer-single-node":
                assert len(mapping.domains) == fewest
    assert found >= 15


def _check(topology: Topology, mapping: Mapping) -> None:
    family = topology.families[0]
    domains = {family.domains[at] for at in range(len(family.ids)) if mapping.whole[0][1] >> at & 1}
    given = {at: (cpu, memory) for at, cpu, memory in mapping.parts}
    assert all(given[at][0] >= 1000 and given[at][1] > 0 for at in domains)


def _fewest(topology: Topology, state: ResourceState, demand: Demand) -> int | None:
    """Least number of NUMA nodes of any mapping that the rule allows, by trying every set of devices."""
    import itertools

    room = domain_room(topology, state)
    every = range(len(topology.domains))
    if sum(room.cores) < demand.cores or sum(room.memory) < demand.memory:
        return None
    best = None
    for chosen in device_sets(topology, state, demand):
        held = {topology.families[0].domains[at] for at in chosen}
        if len(held) > demand.cores or not all(room.cores[at] and room.memory[at] for at in held):
            continue
        for size in range(len(held), len(topology.domains) + 1):
            subsets = (set(one) for one in itertools.combinations(every, size) if held <= set(one))
            if any(
                sum(room.cores[at] for at in one) >= demand.cores
                and sum(room.memory[at] for at in one) >= demand.memory
                for one in subsets
            ):
                best = size if best is None else min(best, size)
                break
    return best
