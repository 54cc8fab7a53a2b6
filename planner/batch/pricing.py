"""The best fill of one node at given prices: cutting stock's pricing problem as a small integer program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortools.sat.python import cp_model

from planner.batch.patterns import device_patterns
from planner.batch.values import Fill, NodeClass, RequestClass

SCALE = 1000


def best_fill(
    node: NodeClass, requests: Sequence[RequestClass], gain: Sequence[float], effort: float
) -> Fill:
    """The fill of one `node` with the greatest sum of `gain` (one value per class); empty if none gains."""
    model = cp_model.CpModel()
    takes = fill_variables(
        model, node, requests, [at for at, one in enumerate(gain) if round(one * SCALE) > 0]
    )
    if not takes:
        return {}
    model.maximize(sum(take * round(gain[at] * SCALE) for at, take in takes.items()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = effort
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return {}
    return {at: count for at, take in takes.items() if (count := solver.value(take))}


def most_per_node(node: NodeClass, request: RequestClass) -> int:
    """How many of one request class an empty node can take at most."""
    bounds = [request.count if request.allowed_on(node) else 0]
    if request.cpu:
        bounds.append(node.cpu // request.cpu)
    if request.memory:
        bounds.append(node.memory // request.memory)
    if request.whole:
        bounds.append(node.gpus // request.gpus)
    if request.part:
        bounds.append(node.gpus * (1000 // request.milli))
    return min(bounds)


def fill_variables(
    model: cp_model.CpModel, node: NodeClass, requests: Sequence[RequestClass], classes: Iterable[int]
) -> dict[int, cp_model.IntVar]:
    """One variable per class that one `node` can take: how many; together never more than it has."""
    bounds = {at: most_per_node(node, requests[at]) for at in classes}
    takes = {at: model.new_int_var(0, bound, "") for at, bound in bounds.items() if bound > 0}
    model.add(sum(take * requests[at].cpu for at, take in takes.items()) <= node.cpu)
    model.add(sum(take * requests[at].memory for at, take in takes.items()) <= node.memory)
    _add_device_constraints(model, node, requests, takes)
    return takes


def _add_device_constraints(
    model: cp_model.CpModel,
    node: NodeClass,
    requests: Sequence[RequestClass],
    takes: dict[int, cp_model.IntVar],
) -> None:
    sizes = tuple(sorted({requests[at].milli for at in takes if requests[at].part}, reverse=True))
    shared: list[cp_model.IntVar] = []
    if sizes:
        combinations = device_patterns(sizes)
        shared = [model.new_int_var(0, node.gpus, "") for _ in combinations]
        for column, size in enumerate(sizes):
            room = sum(
                combination[column] * use
                for combination, use in zip(combinations, shared, strict=True)
                if combination[column]
            )
            model.add(sum(take for at, take in takes.items() if _is_part(requests[at], size)) <= room)
    whole = sum(take * requests[at].gpus for at, take in takes.items() if requests[at].whole)
    model.add(whole + sum(shared) <= node.gpus)


def _is_part(request: RequestClass, size: int) -> bool:
    return request.part and request.milli == size
