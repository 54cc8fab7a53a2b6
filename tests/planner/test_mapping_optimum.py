"""The mapping inside a node against an independent search over every set of devices and NUMA nodes."""

from __future__ import annotations

import itertools
import random

import pytest

from planner.devices.mapping import Mapper
from planner.model.demand import Demand, DeviceShare
from planner.model.node_state import ResourceState, domain_room, initial_state
from planner.model.topology import Topology
from schemas.hardware.model import Gpu, Hardware, Link, NumaNode
from tests.planner.support import GIB, machine, node


def asymmetric() -> Hardware:
    """Three CPU nodes of different size, one memory-only, one GPU memory node; links of several kinds; one
    GPU of unknown place."""
    return Hardware(
        numa_nodes=(
            NumaNode(id=0, cpus=tuple(range(4)), memory=64 * GIB, distances={0: 10, 1: 12, 3: 32, 4: 20}),
            NumaNode(id=1, cpus=tuple(range(4, 12)), memory=32 * GIB, distances={1: 10, 3: 32, 4: 20}),
            NumaNode(id=2, memory=96 * GIB, kind="gpu"),
            NumaNode(id=3, cpus=(12, 13), memory=0, distances={3: 10, 4: 17}),
            NumaNode(id=4, memory=128 * GIB, distances={4: 10}),
        ),
        gpus=tuple(
            Gpu(id=f"g{at}", index=at, numa_node=numa) for at, numa in enumerate([0, 0, 1, 1, 1, 3, 4, None])
        ),
        links=(
            Link(a="g0", b="g2", kind="NV", count=2),
            Link(a="g2", b="g3", kind="NV", count=1),
            Link(a="g3", b="g4", kind="PIX"),
            Link(a="g0", b="g1", kind="PXB"),
        ),
    )


HARDWARE = {
    "1 NUMA node": machine(numa=1, cores=12, gpus=4, nvlink=False),
    "2 NUMA nodes": machine(numa=2, cores=8, gpus=8),
    "4 NUMA nodes": machine(numa=4, cores=6, gpus=8, nvlink=False),
    "8 NUMA nodes": machine(numa=8, cores=4, gpus=8, threads=2),
    "asymmetric": asymmetric(),
}


def random_demand(chance: random.Random, topology: Topology) -> Demand:
    kind = chance.choice(["whole", "share", "cpu", "shared cpu"])
    whole = (("cuda.device", chance.choice([1, 1, 2, 3, 4])),) if kind == "whole" else ()
    milli = chance.choice([100, 300, 500, 700, 1500, 2250])
    share = (
        (DeviceShare("cuda.shares", milli, 50, chance.choice(["fill", "even"])),) if kind == "share" else ()
    )
    cpu = chance.choice([0, 1, 2, 3, 5, 7, 11])
    memory = chance.choice([0, 1, 8, 20, 40, 90]) * GIB
    if kind == "shared cpu":
        return Demand(0, 700 * cpu, memory, (), (), "prefer-single-node", False)
    return Demand(cpu, 0, memory, whole, share, "prefer-single-node", False)


def device_sets(topology: Topology, state: ResourceState, demand: Demand):
    """Every set of devices that could serve the demand, as masks (one family on these machines)."""
    family = topology.families[0]
    free = [at for at in range(len(family.ids)) if state.free[0] >> at & 1]
    if demand.whole:
        yield from itertools.combinations(free, demand.whole[0][1])
    elif demand.shares:
        yield from _share_sets(free, {at: left for _, at, left in state.part}, demand.shares[0])
    else:
        yield ()


def _share_sets(free: list[int], part: dict[int, int], share: DeviceShare):
    whole, rest = divmod(share.milli, 1000)
    have = part | dict.fromkeys(free, 1000)
    if share.spread == "fill" or not whole:
        for chosen in itertools.combinations(free, whole):
            for last in have:
                if last not in chosen and have[last] >= rest:
                    yield (*chosen, last)
        return
    for count in range(whole + bool(rest), len(have) + 1):
        found = False
        for chosen in itertools.combinations(sorted(have), count):
            steps, more = divmod(share.milli // share.quantum, count)
            pieces = sorted((steps + (at < more) for at in range(count)), reverse=True)
            rooms = sorted((have[at] for at in chosen), reverse=True)
            if all(room >= piece * share.quantum for room, piece in zip(rooms, pieces, strict=True)):
                found = True
                yield chosen
        if found:
            return


def optimum(topology: Topology, state: ResourceState, demand: Demand):
    """(NUMA nodes, distance, link cost) of the best mapping, or None: every set of devices with every set of
    NUMA nodes."""
    room = domain_room(topology, state)
    count = len(topology.domains)
    best = None
    for chosen in device_sets(topology, state, demand):
        on = {topology.families[0].domains[at] for at in chosen} - {-1} if chosen else set()
        link = sum(topology.families[0].costs[a][b] for a, b in itertools.combinations(chosen, 2))
        for size in range(1, count + 1):
            for domains in itertools.combinations(range(count), size):
                enough = (
                    on <= set(domains)
                    and sum(room.cores[at] for at in domains) >= demand.cores
                    and sum(room.milli[at] for at in domains) >= demand.milli
                    and sum(room.memory[at] for at in domains) >= demand.memory
                )
                if enough:
                    distance = sum(topology.distance(a, b) for a, b in itertools.combinations(domains, 2))
                    found = (size, distance, link)
                    best = found if best is None or found < best else best
    return best


@pytest.mark.parametrize("name", HARDWARE)
@pytest.mark.parametrize("seed", range(3))
def test_every_mapping_under_churn_is_the_brute_force_optimum(name: str, seed: int) -> None:
    topology = Topology(HARDWARE[name])
    mapper = Mapper(topology)
    chance = random.Random(f"{name}{seed}")
    state = initial_state(topology, node("n", HARDWARE[name]))
    held: list[tuple[Demand, ResourceState, ResourceState]] = []
    placed = 0
    for _ in range(60):
        if held and chance.random() < 0.4:
            _, before, after = held.pop(chance.randrange(len(held)))
            state = give_back(state, before, after)
            continue
        demand = random_demand(chance, topology)
        best = optimum(topology, state, demand)
        mapping = mapper.map(state, demand)
        assert (mapping is None) == (best is None), demand
        if mapping is None or best is None:
            continue
        placed += 1
        distance = sum(topology.distance(a, b) for a, b in itertools.combinations(mapping.domains, 2))
        assert (len(mapping.domains), distance) <= best[:2], demand
        if len(mapping.domains) == best[0]:
            assert mapping.link == best[2], demand
        held.append((demand, state, mapping.state))
        state = mapping.state
    assert placed > 15


def give_back(now: ResourceState, before: ResourceState, after: ResourceState) -> ResourceState:
    """Undo one kernel's taking (`before` → `after`) on a state that changed since."""
    part = {(f, d): left for f, d, left in now.part}
    free = list(now.free)
    had = {(f, d): left for f, d, left in before.part}
    has = {(f, d): left for f, d, left in after.part}
    for family, (old, new) in enumerate(zip(before.free, after.free, strict=True)):
        for device in range(64):
            was = 1000 if old >> device & 1 else had.get((family, device), 0)
            left = 1000 if new >> device & 1 else has.get((family, device), 0)
            if was == left:
                continue
            total = part.pop((family, device), 0) + was - left
            if total == 1000:
                free[family] |= 1 << device
            else:
                part[family, device] = total
    return ResourceState(
        now.cores | (before.cores & ~after.cores),
        tuple(n + a - b for n, a, b in zip(now.shared, before.shared, after.shared, strict=True)),
        tuple(n + a - b for n, a, b in zip(now.memory, before.memory, after.memory, strict=True)),
        tuple(free),
        tuple(sorted((f, d, left) for (f, d), left in part.items())),
    )
