"""How often to use which fill: the linear program that prices requests, the integer program that decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]

from planner.batch.time_limit import TimeLimit
from planner.batch.values import Fill, NodeClass, RequestClass

_PENALTY_FACTOR = 3
_GAP = 1e-4


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

    def as_fills(self, uses: Sequence[int]) -> list[tuple[int, Fill, int]]:
        """The known fills with the number of nodes that get each."""
        return [(kind, dict(fill), count) for (kind, fill), count in zip(self.known, uses, strict=True)]

    def value(self, fill: Sequence[tuple[int, int]]) -> int:
        return sum(self.requests[at].value * count for at, count in fill)

    def penalties(self) -> list[int]:
        """What it costs to leave out one that must be placed: several times its value, and more than any
        single other one is worth. Small enough not to drown the rest in rounding."""
        most = max((request.value for request in self.requests), default=0)
        return [_PENALTY_FACTOR * request.value + most for request in self.requests]


def dual_prices(columns: Columns) -> tuple[NDArray[np.float64], list[float]]:
    """The dual price of each request class, and the use of each fill if fractions of a node were allowed."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    rows_nodes = [solver.Constraint(0, node.count) for node in columns.nodes]
    rows_requests = [solver.Constraint(request.required, request.count) for request in columns.requests]
    objective = solver.Objective()
    objective.SetMaximization()
    for row, request, penalty in zip(rows_requests, columns.requests, columns.penalties(), strict=True):
        if request.required:
            short = solver.NumVar(0, request.required, "")
            objective.SetCoefficient(short, -penalty)
            row.SetCoefficient(short, 1)
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


def round_down(hint: Sequence[float]) -> list[int]:
    """How many nodes get each known fill, of the linear program's use of it: the rest is filled in later."""
    return [int(share + 1e-6) for share in hint]


def choose_fills(columns: Columns, effort: int, limit: TimeLimit) -> list[int]:
    """How many nodes get each known fill; what a fill has too much of is left out later.

    Branch and bound over at most `effort` nodes, in the time that there is; empty without an answer.
    """
    if limit.is_over():
        return []
    solver = pywraplp.Solver.CreateSolver("SCIP")
    uses = [solver.IntVar(0, columns.nodes[kind].count, "") for kind, _ in columns.known]
    rows_nodes = [solver.Constraint(0, node.count) for node in columns.nodes]
    rows_requests = _add_objective(solver, columns)
    for use, (kind, fill) in zip(uses, columns.known, strict=True):
        rows_nodes[kind].SetCoefficient(use, 1)
        for at, count in fill:
            rows_requests[at].SetCoefficient(use, count)
    solver.SetSolverSpecificParametersAsString(f"limits/nodes={effort}\nlimits/gap={_GAP}\n")
    if not math.isinf(limit.left()):
        solver.set_time_limit(max(1, round(1000 * limit.left())))
    status = solver.Solve()
    if status != pywraplp.Solver.OPTIMAL and solver.nodes() < effort:
        limit.reached = True
    if status not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
        return []
    return [round(use.solution_value()) for use in uses]


def _add_objective(solver: pywraplp.Solver, columns: Columns) -> list[pywraplp.Constraint]:
    """The objective: what is placed, less what is missing of it. Gives the rows by which fills cover
    requests."""
    objective = solver.Objective()
    objective.SetMaximization()
    scale = max((request.value for request in columns.requests), default=0) or 1
    rows = []
    for request, penalty in zip(columns.requests, columns.penalties(), strict=True):
        row = solver.Constraint(0, solver.infinity())
        placed = solver.NumVar(0, request.count, "")
        row.SetCoefficient(placed, -1)
        objective.SetCoefficient(placed, request.value / scale)
        if request.required:
            short = solver.NumVar(0, request.required, "")
            objective.SetCoefficient(short, -penalty / scale)
            needed = solver.Constraint(request.required, solver.infinity())
            needed.SetCoefficient(placed, 1)
            needed.SetCoefficient(short, 1)
        rows.append(row)
    return rows
