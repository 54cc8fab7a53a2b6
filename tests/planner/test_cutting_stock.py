"""Packing a whole queue: always feasible, never below greedy, the optimum on what can be enumerated."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.batch.arrangement import arrange
from planner.batch.completion import complete_packing
from planner.batch.cutting_stock import pack
from planner.batch.greedy import Bins, insert_greedily, largest_first
from planner.batch.patterns import device_patterns
from planner.batch.time_limit import no_limit
from planner.batch.values import Effort, Fill, NodeClass, Packing, RequestClass

LITTLE = Effort(rounds=6, rounding=20)

nodes = st.lists(
    st.builds(
        NodeClass,
        gpus=st.integers(0, 4),
        cpu=st.integers(0, 40),
        memory=st.integers(0, 40),
        count=st.integers(1, 3),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def request(draw: st.DrawFn) -> RequestClass:
    gpus = draw(st.integers(0, 2))
    milli = draw(st.sampled_from([1000, 700, 500, 300])) if gpus == 1 else 1000
    cpu, memory = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    return RequestClass(cpu, memory, gpus, milli, draw(st.integers(1, 5)), max(1, gpus * milli) + cpu)


def feasible(node: NodeClass, fill: Fill, requests: Sequence[RequestClass]) -> bool:
    """Checked from first principles, by trying to put every part on a device."""
    taken = [requests[at] for at, count in fill.items() for _ in range(count)]
    whole = sum(one.gpus for one in taken if one.whole)
    parts = sorted((one.milli for one in taken if one.part), reverse=True)
    return (
        sum(one.cpu for one in taken) <= node.cpu
        and sum(one.memory for one in taken) <= node.memory
        and whole <= node.gpus
        and _shares(parts, [1000] * (node.gpus - whole))
    )


def _shares(parts: Sequence[int], free: list[int]) -> bool:
    if not parts:
        return True
    for device in {left: at for at, left in enumerate(free)}.values():
        if free[device] >= parts[0]:
            rest = [left - parts[0] if at == device else left for at, left in enumerate(free)]
            if _shares(parts[1:], rest):
                return True
    return False


def worth(packing: Packing, requests: Sequence[RequestClass]) -> int:
    return sum(one.value * count for one, count in zip(requests, packing.placed, strict=True))


@settings(max_examples=40, deadline=None)
@given(nodes, st.lists(request(), min_size=1, max_size=5))
def test_every_fill_is_feasible_and_nothing_is_placed_twice(
    kinds: list[NodeClass], requests: list[RequestClass]
) -> None:
    packing = pack(kinds, requests, LITTLE)
    placed = [0] * len(requests)
    used = [0] * len(kinds)
    for kind, fill, count in packing.fills:
        assert feasible(kinds[kind], fill, requests)
        used[kind] += count
        for at, number in fill.items():
            placed[at] += number * count
    assert tuple(placed) == packing.placed
    assert used == [kind.count for kind in kinds]
    assert all(count <= one.count for one, count in zip(requests, packing.placed, strict=True))
    assert packing == pack(kinds, requests, LITTLE)


@settings(max_examples=25, deadline=None)
@given(
    st.builds(
        NodeClass, gpus=st.integers(1, 3), cpu=st.integers(5, 30), memory=st.just(99), count=st.just(1)
    ),
    st.lists(request(), min_size=1, max_size=3),
)
def test_one_node_gets_the_best_fill_there_is(node: NodeClass, requests: list[RequestClass]) -> None:
    counts = itertools.product(*(range(one.count + 1) for one in requests))
    fills = [dict(enumerate(count)) for count in counts]
    best = max(
        sum(requests[at].value * count for at, count in fill.items())
        for fill in fills
        if feasible(node, fill, requests)
    )
    assert worth(pack([node], requests, Effort(rounds=12, rounding=50)), requests) == best


def test_it_finds_what_greedy_misses() -> None:
    kinds = [NodeClass(gpus=4, cpu=16, memory=99, count=4)]
    sizes = ((9, 4), (5, 6), (3, 4))
    requests = [RequestClass(cpu, 1, 1, 1000, count, 1000) for cpu, count in sizes]
    bins = Bins(kinds, 4, 1)
    greedy = insert_greedily(bins, requests, [(at, requests[at].count) for at in largest_first(requests)])
    assert sum(greedy) == 8
    assert pack(kinds, requests, LITTLE).placed == (2, 6, 4)


def test_what_was_placed_before_is_kept() -> None:
    kinds = [NodeClass(gpus=1, cpu=4, memory=4, count=1)]
    requests = [
        RequestClass(cpu=1, memory=1, gpus=1, milli=300, count=1, value=300),
        RequestClass(cpu=1, memory=1, gpus=1, milli=1000, count=1, value=1000),
    ]
    assert pack(kinds, requests, LITTLE).placed == (0, 1)
    assert pack(kinds, must(requests, (1, 0)), LITTLE).placed == (1, 0)


@settings(max_examples=25, deadline=None)
@given(nodes, st.lists(request(), min_size=1, max_size=5))
def test_a_packing_to_begin_with_is_never_given_up(
    kinds: list[NodeClass], requests: list[RequestClass]
) -> None:
    bins = Bins(kinds, 1, 1)
    before = insert_greedily(bins, requests, [(at, one.count) for at, one in enumerate(requests)])
    start = [(int(kind), fill, 1) for kind, fill in zip(bins.kind, bins.fills, strict=True)]
    packing = pack(kinds, must(requests, before), Effort(rounds=1, rounding=1), start)
    assert all(now >= then for now, then in zip(packing.placed, before, strict=True))
    assert worth(packing, requests) >= sum(
        one.value * count for one, count in zip(requests, before, strict=True)
    )
    for kind, fill, _ in packing.fills:
        assert feasible(kinds[kind], fill, requests)


def test_room_is_made_for_who_must_stay() -> None:
    kinds = [NodeClass(gpus=2, cpu=10, memory=99, count=2)]
    requests = must(
        [
            RequestClass(1, 1, 2, 1000, 1, 20),
            RequestClass(1, 1, 1, 500, 2, 5),
            RequestClass(1, 1, 1, 300, 4, 3),
        ],
        (1, 2, 0),
    )
    found = complete_packing(
        kinds, requests, [(0, {1: 1, 2: 2}, 1), (0, {1: 1, 2: 2}, 1)], (1.0, 1.0), no_limit()
    )
    assert found.placed[:2] == (1, 2)


def test_parts_find_the_arrangement_that_best_fit_misses() -> None:
    kinds = [NodeClass(gpus=2, cpu=99, memory=99, count=1)]
    requests = [RequestClass(1, 1, 1, milli, 1, milli) for milli in (500, 400, 350, 300, 250, 200, 100)]
    fill = dict.fromkeys(range(6), 1)
    found = complete_packing(kinds, requests, [(0, fill, 1)], (1.0, 1.0), no_limit())
    assert found.placed == (1, 1, 1, 1, 1, 1, 0)


@given(
    st.lists(st.integers(1, 20).map(lambda size: 50 * size), max_size=8),
    st.lists(st.sampled_from([0, 300, 1000]), max_size=3),
)
def test_parts_are_arranged_whenever_they_can_be(sizes: list[int], free: list[int]) -> None:
    parts = sorted(sizes, reverse=True)
    devices = arrange(parts, free)
    for device, room in enumerate(free):
        assert sum(part for part, at in zip(parts, devices, strict=True) if at == device) <= room
    assert (None not in devices) == _shares(parts, list(free))


def must(requests: Sequence[RequestClass], placed: Sequence[int]) -> list[RequestClass]:
    return [replace(one, required=count) for one, count in zip(requests, placed, strict=True)]


def test_patterns_are_the_maximal_combinations() -> None:
    assert set(device_patterns((700, 300))) == {(1, 1), (0, 3), (1, 0)}
    for way in device_patterns((810, 470, 320, 160)):
        assert sum(size * count for size, count in zip((810, 470, 320, 160), way, strict=True)) <= 1000


def test_large_requests_come_first() -> None:
    small = RequestClass(1, 1, 1, 300, 1, 1)
    large = RequestClass(1, 1, 8, 1000, 1, 1)
    assert largest_first([small, large]) == [1, 0]
