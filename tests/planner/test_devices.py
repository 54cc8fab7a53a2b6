"""Which devices of a family, how amounts are divided, and what a piece of a device is worth."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.devices import amounts
from planner.devices.mapping import Mapper
from planner.model import unhealthy_devices
from planner.model.demand import Demand, DeviceShare, device_milli
from planner.model.device_family import DeviceFamily, DeviceLinks, DeviceQuery, bits
from planner.model.node_state import initial_state
from planner.model.topology import Topology
from planner.model.types import Fractional, Reason
from planner.nodes import part_prices
from schemas.hardware.model import Gpu, MigDevice, NumaNode
from tests.planner.support import GIB, machine, node


@st.composite
def families(draw: st.DrawFn) -> DeviceFamily:
    count = draw(st.integers(1, 7))
    domains = tuple(draw(st.integers(-1, 2)) for _ in range(count))
    cost = [[0] * count for _ in range(count)]
    for a, b in itertools.combinations(range(count), 2):
        cost[a][b] = cost[b][a] = draw(st.sampled_from([-(1 << 40), 1, 256, 1 << 32]))
    groups = [draw(st.integers(0, 2)) for _ in range(count)]
    nics = [draw(st.integers(0, 2)) for _ in range(count)]
    rails = [frozenset(draw(st.sets(st.integers(0, 2), max_size=2))) for _ in range(count)]
    names = tuple(f"g{at}" for at in range(count))
    links = DeviceLinks(cost, groups, nics, rails if draw(st.booleans()) else ())
    return DeviceFamily("cuda.device", names, domains, links)


def connected(family: DeviceFamily, mask: int) -> bool:
    """By closing over pairs."""
    members = list(bits(mask))
    groups = {at: {at} for at in members}
    for a, b in itertools.combinations(members, 2):
        if family.costs[a][b] < 0 and groups[a] is not groups[b]:
            groups[a] |= groups[b]
            for at in groups[b]:
                groups[at] = groups[a]
    return len({id(one) for one in groups.values()}) <= 1


QUERIES = st.builds(
    DeviceQuery,
    allowed=st.integers(0, 127),
    free=st.integers(0, 127),
    k=st.integers(1, 4),
    even=st.booleans(),
    nic=st.booleans(),
    beside=st.just(0),
    joined=st.booleans(),
    rails=st.sampled_from([(), (1,), (0, 2)]),
)


@given(families(), QUERIES)
def test_tables_and_counting_give_the_least_rank(family: DeviceFamily, query: DeviceQuery) -> None:
    query = query._replace(free=query.free & family.all)
    found = family.best(query)
    able = query.allowed & query.free
    sets = [sum(1 << at for at in one) for one in itertools.combinations(bits(able), query.k)]
    sets = [one for one in sets if not query.joined or connected(family, one)]
    assert all(family.joined(one) == connected(family, one) for one in sets)

    def rank(one: int) -> tuple[int, ...]:
        return family.rank(one, query.free, query.even, query.nic, query.rails)

    assert found == min(sets, key=rank, default=None)
    if able.bit_count() >= query.k:
        assert family._by_counting(query._replace(allowed=able)) == found


def test_a_machine_with_more_devices_than_tables_hold() -> None:
    hardware = machine(numa=4, cores=8, gpus=32)
    topology = Topology(hardware)
    mapping = Mapper(topology).map(initial_state(topology, node("n", hardware)), _gpus(8))
    assert mapping is not None and mapping.domains == (0,)


@pytest.mark.parametrize(("sick", "more"), [(3, ""), (5, "; and 2 more")])
def test_of_many_devices_out_of_placement_three_are_named(sick: int, more: str) -> None:
    ids = [f"GPU-{at}" for at in range(sick)]
    found = unhealthy_devices.unhealthy_wait_reason(
        [node("n", machine(gpus=8), unhealthy=frozenset(ids))], _gpus(1)
    )
    named = "; ".join(f"GPU {at} of n is out of placement" for at in range(3))
    assert found == Reason("unhealthy", named + more)


def _gpus(count: int, **more: object) -> Demand:
    base = Demand(0, 0, 0, (("cuda.device", count),), (), "prefer-single-node", False)
    return base._replace(**more)  # type: ignore[arg-type]


@given(st.integers(0, 50), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=5))
def test_proportional_division_is_complete_and_within_room(total: int, parts: list[tuple[int, int]]) -> None:
    weights, room = [one for one, _ in parts], [one for _, one in parts]
    total = min(total, sum(room))
    given_ = amounts.divide_in_proportion(total, weights, room)
    assert sum(given_) == total and all(0 <= one <= most for one, most in zip(given_, room, strict=True))


@given(st.integers(0, 50), st.lists(st.integers(0, 20), min_size=1, max_size=5))
def test_level_division_differs_by_at_most_one_below_the_limits(total: int, room: list[int]) -> None:
    total = min(total, sum(room))
    given_ = amounts.divide_evenly(total, room)
    assert sum(given_) == total and all(one <= most for one, most in zip(given_, room, strict=True))
    below = [one for one, most in zip(given_, room, strict=True) if one < most]
    assert not below or max(given_) - min(below) <= 1


@pytest.mark.parametrize(
    ("units", "rule", "expected"),
    [
        (500, Fractional(), 500),
        (1750, Fractional(quantum=250), 1750),
        (1751, Fractional(quantum=250), 2000),
        (1000, Fractional(shares_per_device=2), 500),
        (1, Fractional(quantum=100), 100),
        (333, Fractional(shares_per_device=2, quantum=1), 167),
    ],
)
def test_a_fraction_is_never_less_than_asked(units: int, rule: Fractional, expected: int) -> None:
    assert device_milli(units, rule) == expected


def _share(milli: int, spread: str = "fill", quantum: int = 10) -> Demand:
    share = DeviceShare("cuda.shares", milli, quantum, spread)  # type: ignore[arg-type]
    return Demand(0, 0, 0, (), (share,), "prefer-single-node", False)


def test_even_pieces_differ_by_at_most_one_quantum() -> None:
    hardware = machine(numa=1, cores=4, gpus=4)
    topology = Topology(hardware)
    mapping = Mapper(topology).map(initial_state(topology, node("n", hardware)), _share(1750, "even", 250))
    assert mapping is not None and sorted(milli for _, _, milli in mapping.pieces) == [750, 1000]


def test_a_part_goes_where_it_leaves_least() -> None:
    hardware = machine(numa=1, cores=4, gpus=3)
    topology = Topology(hardware)
    state = initial_state(topology, node("n", hardware))
    state = state._replace(free=(0b001,), part=((0, 1, 600), (0, 2, 400)))
    mapping = Mapper(topology).map(state, _share(400))
    assert mapping is not None and mapping.pieces == ((0, 2, 400),)
    assert mapping.state.part == ((0, 1, 600),)


def test_mig_instances_are_devices_of_their_own_profile() -> None:
    hardware = machine(numa=2, cores=4, gpus=2)
    instances = tuple(MigDevice(id=f"MIG-{at}", profile="1g.10gb") for at in range(3))
    mig = hardware.gpus[1].model_copy(update={"mig": "enabled", "mig_devices": instances})
    topology = Topology(hardware.model_copy(update={"gpus": (hardware.gpus[0], mig)}))
    state = initial_state(topology, node("n", topology.hardware))
    demand = _gpus(0, whole=(("cuda.mig.1g.10gb", 2),))
    mapping = Mapper(topology).map(state, demand)
    assert mapping is not None and mapping.domains == (1,)
    assert Mapper(topology).map(state, _gpus(2)) is None
    assert Mapper(topology).map(mapping.state, demand) is None


def test_memory_only_and_gpu_memory_nodes_carry_no_session() -> None:
    hardware = machine(numa=1, cores=2, gpus=0).model_copy(
        update={
            "numa_nodes": (
                NumaNode(id=0, cpus=(0, 1), memory=4 * GIB),
                NumaNode(id=1, memory=96 * GIB, kind="gpu"),
                NumaNode(id=2, memory=64 * GIB, kind="cxl"),
            ),
            "gpus": (Gpu(id="g", index=0, numa_node=1),),
        }
    )
    topology = Topology(hardware)
    assert topology.domains == (0,) and topology.families[0].domains == (0,)
    state = initial_state(topology, node("n", hardware))
    assert Mapper(topology).map(state, _gpus(1, memory=5 * GIB)) is None
    assert Mapper(topology).map(state, _gpus(1, memory=4 * GIB)) is not None


def test_the_worth_of_a_free_part_follows_from_what_is_asked_for() -> None:
    worth = part_prices.free_part_values({810: 100, 1000: 50, 160: 3})
    assert worth[1000] == 1000 and worth[810] == 1000 and worth[190] == 0
    halves = part_prices.free_part_values({500: 10})
    assert (halves[499], halves[500], halves[999], halves[1000]) == (0, 500, 500, 1000)
    assert (
        part_prices.free_part_values({650: 10, 320: 10})[320]
        + part_prices.free_part_values({650: 10, 320: 10})[650]
        == 1000
    )
