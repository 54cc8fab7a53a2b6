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

import numpy as np
from numpy.typing import NDArray

from planner.batch.completion import complete_packing
from planner.batch.greedy import Bins, insert_greedily, largest_first
from planner.batch.master_problem import Columns, choose_fills, dual_prices
from planner.batch.pricing import best_fill
from planner.batch.values import Effort, Fill, Fills, NodeClass, Packing, RequestClass

_START_FACTORS = (0.8, 1.0, 1.2)
_SMOOTHING = 0.3
_ALL_CLASSES_EVERY = 3
"""Every so many rounds all node classes are priced."""
_LARGE_CLASS = 0.05
"""Share of all nodes above which a class is priced in every round."""


def pack(
    nodes: Sequence[NodeClass],
    requests: Sequence[RequestClass],
    effort: Effort = Effort(),  # noqa: B008
    start: Fills = (),
) -> Packing:
    """The best packing found. Every fill respects cpu, memory and each device's thousand milli.

    `start`: a packing known to be possible; the answer is never worse, and has all that must be placed where
    the start has it.
    """
    columns = Columns(nodes, requests)
    needs = _amounts_per_gpu(requests)
    for kind, fill, _ in start:
        columns.add(kind, fill)
    for factor in _START_FACTORS:
        bins = Bins(nodes, needs[0] * factor, needs[1] * factor)
        insert_greedily(bins, requests, [(at, requests[at].count) for at in largest_first(requests)])
        for kind, fill in zip(bins.kind, bins.fills, strict=True):
            columns.add(int(kind), fill)
    hint = _generate_columns(columns, effort)
    uses = choose_fills(columns, hint, effort.rounding)
    chosen = [(kind, dict(fill), count) for (kind, fill), count in zip(columns.known, uses, strict=True)]
    found = complete_packing(nodes, requests, chosen, needs)
    if start:
        before = complete_packing(nodes, requests, start, needs)
        found = found if found.better_than(before, requests) else before
    return found


def _amounts_per_gpu(requests: Sequence[RequestClass]) -> tuple[float, float]:
    """Milli-cores and bytes that go with one GPU, over all requests for GPUs."""
    gpus = sum(request.gpu_milli * request.count for request in requests) / 1000 or 1.0
    with_gpu = [request for request in requests if request.gpus]
    cpu = sum(request.cpu * request.count for request in with_gpu)
    memory = sum(request.memory * request.count for request in with_gpu)
    return cpu / gpus, memory / gpus


def _generate_columns(columns: Columns, effort: Effort) -> list[float]:
    """Add fills until none improves; gives the linear program's use of each."""
    values = np.array([request.value for request in columns.requests], float)
    price, hint = dual_prices(columns)
    smooth, new = price, 1
    with ThreadPoolExecutor(effort.workers) as table:
        for turn in range(effort.rounds):
            kinds = _classes_to_price(columns.nodes, all_classes=not new or turn % _ALL_CLASSES_EVERY == 0)
            gain = values - smooth
            fills = list(table.map(lambda kind, gain=gain: _price_class(columns, kind, gain, effort), kinds))
            found = sum([columns.add(kind, fill) for kind, fill in zip(kinds, fills, strict=True)])
            if not found and not new and np.allclose(smooth, price):
                break
            price, hint = dual_prices(columns)
            smooth = _SMOOTHING * smooth + (1 - _SMOOTHING) * price if found else price
            new = found
    return hint


def _classes_to_price(nodes: Sequence[NodeClass], *, all_classes: bool) -> list[int]:
    """The node classes to price: all, or those that hold enough nodes for a better fill to matter much."""
    total = sum(node.count for node in nodes)
    return [kind for kind, node in enumerate(nodes) if all_classes or node.count >= _LARGE_CLASS * total]


def _price_class(columns: Columns, kind: int, gain: NDArray[np.float64], effort: Effort) -> Fill:
    return best_fill(columns.nodes[kind], columns.requests, gain.tolist(), effort.pricing)
