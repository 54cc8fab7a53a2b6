"""Pack a whole queue onto a cluster of few kinds of node: cutting stock by column generation.

Clusters have hundreds of equal nodes and queues have hundreds of equal requests, so that the right
question is not which node takes which request but how many nodes take which *fill* (Gilmore and Gomory,
1961). A greedy packing gives the first fills; a linear program over the known fills prices every request
class; the best new fill at these prices is found per node class by CP-SAT; when no fill improves (or the
effort is spent) an integer program chooses, and what is left over is filled in greedily. The answer
depends on the input and the effort alone, not on the machine's speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.batch.greedy import Bins, fill_in, large_first
from planner.batch.master import Columns, choose, prices
from planner.batch.pricing import best_fill
from planner.batch.values import Effort, Fill, NodeClass, Packing, RequestClass

_STARTS = (0.8, 1.0, 1.2)
_SMOOTHING = 0.3
_EVERYONE = 3
"""Every so many rounds all node classes are priced."""
_MANY = 0.05
"""Share of all nodes above which a class is priced in every round."""


def pack(nodes: Sequence[NodeClass], requests: Sequence[RequestClass], effort: Effort = Effort()) -> Packing:  # noqa: B008
    """The most valuable packing found. Every fill respects cpu, memory and each device's thousand milli."""
    columns = Columns(nodes, requests)
    needs = _needs(requests)
    for factor in _STARTS:
        bins = Bins(nodes, needs[0] * factor, needs[1] * factor)
        fill_in(bins, requests, [(at, requests[at].count) for at in large_first(requests)])
        for kind, fill in zip(bins.kind, bins.fills, strict=True):
            columns.add(int(kind), fill)
    hint = _generate(columns, effort)
    uses = choose(columns, hint, effort.rounding)
    return _complete(columns, uses, needs)


def _needs(requests: Sequence[RequestClass]) -> tuple[float, float]:
    """Milli-cores and bytes that go with one GPU, over all requests for GPUs."""
    gpus = sum(request.gpu_milli * request.count for request in requests) / 1000 or 1.0
    with_gpu = [request for request in requests if request.gpus]
    cpu = sum(request.cpu * request.count for request in with_gpu)
    memory = sum(request.memory * request.count for request in with_gpu)
    return cpu / gpus, memory / gpus


def _generate(columns: Columns, effort: Effort) -> list[float]:
    """Add fills until none improves; gives the linear program's use of each."""
    values = np.array([request.value for request in columns.requests], float)
    price, hint = prices(columns)
    smooth, new = price, 1
    with ThreadPoolExecutor(effort.workers) as pool:
        for turn in range(effort.rounds):
            kinds = _kinds(columns.nodes, everyone=not new or turn % _EVERYONE == 0)
            gain = values - smooth
            fills = list(pool.map(lambda kind, gain=gain: _fill(columns, kind, gain, effort), kinds))
            found = sum([columns.add(kind, fill) for kind, fill in zip(kinds, fills, strict=True)])
            if not found and not new and np.allclose(smooth, price):
                break
            price, hint = prices(columns)
            smooth = _SMOOTHING * smooth + (1 - _SMOOTHING) * price if found else price
            new = found
    return hint


def _kinds(nodes: Sequence[NodeClass], *, everyone: bool) -> list[int]:
    """The node classes to price: all, or those that hold enough nodes for a better fill to matter much."""
    total = sum(node.count for node in nodes)
    return [kind for kind, node in enumerate(nodes) if everyone or node.count >= _MANY * total]


def _fill(columns: Columns, kind: int, gain: NDArray[np.float64], effort: Effort) -> Fill:
    return best_fill(columns.nodes[kind], columns.requests, gain.tolist(), effort.pricing)


def _complete(columns: Columns, uses: Sequence[int], needs: tuple[float, float]) -> Packing:
    """Put the chosen fills on nodes without exceeding any request's count, then fill in what is left."""
    requests = columns.requests
    bins = Bins(columns.nodes, *needs)
    left = [request.count for request in requests]
    free = {kind: list(np.flatnonzero(bins.kind == kind)) for kind in range(len(columns.nodes))}
    for (kind, fill), count in zip(columns.known, uses, strict=True):
        for _ in range(count):
            taken = {at: min(number, left[at]) for at, number in fill if left[at]}
            for at, number in taken.items():
                left[at] -= number
            bins.preload(int(free[kind].pop()), taken, requests)
    fill_in(bins, requests, [(at, left[at]) for at in large_first(requests) if left[at]])
    return _packing(bins, len(requests))


def _packing(bins: Bins, classes: int) -> Packing:
    counted: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
    placed = [0] * classes
    for kind, fill in zip(bins.kind, bins.fills, strict=True):
        key = (int(kind), tuple(sorted(fill.items())))
        counted[key] = counted.get(key, 0) + 1
        for at, number in fill.items():
            placed[at] += number
    return Packing(tuple((kind, dict(fill), count) for (kind, fill), count in counted.items()), tuple(placed))


def keep(requests: Sequence[RequestClass], placed: Sequence[int]) -> list[RequestClass]:
    """The same requests, those already placed worth more than all others together: none of them is given up.

    The first half of the list are the placed ones, the second half the rest, in the same order.
    """
    most = sum(request.value * request.count for request in requests) + 1
    first = [
        replace(one, count=count, value=one.value + most) for one, count in zip(requests, placed, strict=True)
    ]
    rest = [replace(one, count=one.count - count) for one, count in zip(requests, placed, strict=True)]
    return [*first, *rest]
