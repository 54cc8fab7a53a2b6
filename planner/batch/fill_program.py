"""What one node can take as a small integer program: exact, and quick with little to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortools.sat.python import cp_model

from planner.batch.patterns import device_patterns
from planner.batch.values import Fill, NodeClass, RequestClass

_EFFORT = 0.25
"""CP-SAT's deterministic time for one program."""


def exact_fill(
    node: NodeClass, requests: Sequence[RequestClass], worth: dict[int, int]
) -> tuple[Fill, float]:
    """The fill of one `node` with the greatest sum of `worth` (by class), and the deterministic seconds that
    CP-SAT took; empty if none was found in the effort."""
    model = cp_model.CpModel()
    takes = fill_variables(model, node, requests, worth)
    model.maximize(sum(take * worth[at] for at, take in takes.items()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = _EFFORT
    found = solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    fill = {at: count for at, take in takes.items() if (count := solver.value(take))} if found else {}
    return fill, solver.response_proto.deterministic_time


def fill_variables(
    model: cp_model.CpModel, node: NodeClass, requests: Sequence[RequestClass], classes: Iterable[int]
) -> dict[int, cp_model.IntVar]:
    """One variable per class that one `node` can take: how many; together never more than it has."""
    bounds = {at: min(requests[at].count, requests[at].most_on(node)) for at in classes}
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
