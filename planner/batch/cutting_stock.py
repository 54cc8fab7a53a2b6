"""Pack a whole queue onto a cluster of few kinds of node: cutting stock by column generation.

Clusters have hundreds of equal nodes and queues have hundreds of equal requests, so that the right
question is not which node takes which request but how many nodes take which *fill* (Gilmore and Gomory,
1961). Greedy packings give the first fills; a linear program over the known fills prices every request
class; the best new fill at these prices is found per node class by knapsack tables; when no fill improves
(or the effort is spent) an integer program chooses, and so does rounding down; what is left over is filled in
greedily, and the better one counts.

The answer depends on the input and the effort alone, not on the machine's speed, unless a time limit ends it:
then it is the best that was found until then. It is never worse than a greedy packing or the one to begin
with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np

from planner.batch.completion import complete_packing
from planner.batch.greedy import Bins, insert_greedily, largest_first
from planner.batch.master_problem import Columns, choose_fills, dual_prices, round_down
from planner.batch.pricing import Pricing
from planner.batch.time_limit import TimeLimit, no_limit
from planner.batch.values import Effort, Fills, NodeClass, Packing, RequestClass

_START_FACTORS = (1.0, 0.8, 1.2)
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
    limit: TimeLimit | None = None,
) -> Packing:
    """The best packing found. Every fill respects cpu, memory and each device's thousand milli.

    `start`: a packing known to be possible; the answer is never worse, and has all that must be placed where
    the start has it.
    """
    limit = limit or no_limit()
    needs = _amounts_per_gpu(requests)
    known: list[Fills] = [start] if start else []
    for fills in _greedy_packings(nodes, requests, needs):
        known.append(fills)
        if limit.is_over():
            break
    columns = Columns(nodes, requests)
    for kind, fill, _ in (each for fills in known for each in fills):
        columns.add(kind, fill)
    hint = _generate_columns(columns, effort, limit)
    chosen = [round_down(hint), choose_fills(columns, effort.rounding, limit)]
    tries = [known[0], *(columns.as_fills(uses) for uses in chosen if uses)]
    found = [complete_packing(nodes, requests, fills, needs, limit) for fills in tries]
    return reduce(lambda best, one: one if one.better_than(best, requests) else best, found)


def _greedy_packings(
    nodes: Sequence[NodeClass], requests: Sequence[RequestClass], needs: tuple[float, float]
) -> Iterator[Fills]:
    for factor in _START_FACTORS:
        bins = Bins(nodes, needs[0] * factor, needs[1] * factor)
        insert_greedily(bins, requests, [(at, requests[at].count) for at in largest_first(requests)])
        yield [(int(kind), fill, 1) for kind, fill in zip(bins.kind, bins.fills, strict=True)]


def _amounts_per_gpu(requests: Sequence[RequestClass]) -> tuple[float, float]:
    """Milli-cores and bytes that go with one GPU, over all requests for GPUs."""
    gpus = sum(request.gpu_milli * request.count for request in requests) / 1000 or 1.0
    with_gpu = [request for request in requests if request.gpus]
    cpu = sum(request.cpu * request.count for request in with_gpu)
    memory = sum(request.memory * request.count for request in with_gpu)
    return cpu / gpus, memory / gpus


def _generate_columns(columns: Columns, effort: Effort, limit: TimeLimit) -> list[float]:
    """Add fills until none improves; gives the linear program's use of each."""
    values = np.array([request.value for request in columns.requests], float)
    price, hint = dual_prices(columns)
    smooth, new = price, 1
    pricing = Pricing(columns.requests)
    for turn in range(effort.rounds):
        found = 0
        for kind in _classes_to_price(columns.nodes, all_classes=not new or turn % _ALL_CLASSES_EVERY == 0):
            if pricing.work >= effort.pricing or limit.is_over():
                break
            found += columns.add(kind, pricing.best_fill(columns.nodes[kind], values - smooth))
        spent = pricing.work >= effort.pricing or limit.is_over()
        if not found and (spent or (not new and np.allclose(smooth, price))):
            break
        price, hint = dual_prices(columns)
        smooth = _SMOOTHING * smooth + (1 - _SMOOTHING) * price if found else price
        new = found
        if spent:
            break
    return hint


def _classes_to_price(nodes: Sequence[NodeClass], *, all_classes: bool) -> list[int]:
    """The node classes to price: all, or those that hold enough nodes for a better fill to matter much."""
    total = sum(node.count for node in nodes)
    return [kind for kind, node in enumerate(nodes) if all_classes or node.count >= _LARGE_CLASS * total]
