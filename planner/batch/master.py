"""How often to use which fill: the linear program that prices requests, the integer program that decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]
from ortools.sat.python import cp_model

from planner.batch.values import Fill, NodeClass, RequestClass


@dataclass
class Columns:
    """The fills known so far, each once per node class."""

    nodes: Sequence[NodeClass]
    requests: Sequence[RequestClass]
    known: dict[tuple[int, tuple[tuple[int, int], ...]], None] = field(default_factory=dict)

    def add(self, kind: int, fill: Fill) -> bool:
        """True when it is new."""
        key = (kind, tuple(sorted(fill.items())))
        if not fill or key in self.known:
            return False
        self.known[key] = None
        return True

    def value(self, fill: Sequence[tuple[int, int]]) -> int:
        return sum(self.requests[at].value * count for at, count in fill)


def prices(columns: Columns) -> tuple[NDArray[np.float64], list[float]]:
    """The dual price of each request class, and the use of each fill if fractions of a node were allowed."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    rows_nodes = [solver.Constraint(0, node.count) for node in columns.nodes]
    rows_requests = [solver.Constraint(0, request.count) for request in columns.requests]
    objective = solver.Objective()
    objective.SetMaximization()
    uses = []
    for kind, fill in columns.known:
        use = solver.NumVar(0, solver.infinity(), "")
        objective.SetCoefficient(use, columns.value(fill))
        rows_nodes[kind].SetCoefficient(use, 1)
        for at, count in fill:
            rows_requests[at].SetCoefficient(use, count)
        uses.append(use)
    solver.Solve()
    return np.array([row.dual_value() for row in rows_requests]), [use.solution_value() for use in uses]


def choose(columns: Columns, hint: Sequence[float], effort: float) -> list[int]:
    """How many nodes get each known fill; what a fill has too much of is left out later."""
    model = cp_model.CpModel()
    uses = [model.new_int_var(0, columns.nodes[kind].count, "") for kind, _ in columns.known]
    for use, share in zip(uses, hint, strict=True):
        model.add_hint(use, int(share + 1e-6))
    for kind, node in enumerate(columns.nodes):
        model.add(
            sum(use for use, key in zip(uses, columns.known, strict=True) if key[0] == kind) <= node.count
        )
    placed = [model.new_int_var(0, request.count, "") for request in columns.requests]
    covering: list[list[cp_model.LinearExpr]] = [[] for _ in columns.requests]
    for use, (_, fill) in zip(uses, columns.known, strict=True):
        for at, count in fill:
            covering[at].append(use * count)
    for one, cover in zip(placed, covering, strict=True):
        model.add(one <= sum(cover))
    model.maximize(sum(one * request.value for one, request in zip(placed, columns.requests, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 2
    solver.parameters.interleave_search = True
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = effort
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return [int(share + 1e-6) for share in hint]
    return [solver.value(use) for use in uses]
