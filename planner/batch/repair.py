"""Room for those that must be placed and found none: a few nodes are packed anew, exactly.

Nodes with most that is idle or need not stay go first. Each group of them is one small integer program over
what is on them and what is missing; only an answer with less missing is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python import cp_model

from planner.batch.fill_program import fill_variables
from planner.batch.greedy import Bins
from planner.batch.time_limit import TimeLimit
from planner.batch.values import Fill, NodeClass, RequestClass

_GROUP, _TRIES = 6, 8
"""Nodes in one program, and programs without success for one class that is missing."""
_PROGRAMS = 24
"""In all, for one packing."""
_EFFORT = 1.0
"""CP-SAT's deterministic time for one program."""


def repair_required(
    bins: Bins,
    nodes: Sequence[NodeClass],
    requests: Sequence[RequestClass],
    placed: list[int],
    limit: TimeLimit,
) -> None:
    """Change `bins` and `placed` so that fewer are missing of those that must be placed, in the time that
    there is."""
    programs = 0
    for which, request in enumerate(requests):
        tried = 0
        while placed[which] < request.required and tried < _TRIES:
            if programs == _PROGRAMS or limit.is_over():
                return
            programs += 1
            able = [at for at, kind in enumerate(bins.kind) if request.allowed_on(nodes[int(kind)])]
            able.sort(key=lambda at: (-_replaceable_milli(bins, at, requests, placed), at))
            group = able[tried * _GROUP : (tried + 1) * _GROUP]
            tried = 0 if group and _pack_anew(bins, nodes, requests, placed, which, group) else tried + 1


def _replaceable_milli(bins: Bins, at: int, requests: Sequence[RequestClass], placed: Sequence[int]) -> int:
    """Milli-devices of a node that are idle, or held by requests of which more are placed than must be."""
    surplus = {which: placed[which] - requests[which].required for which in bins.fills[at]}
    held = sum(min(n, max(0, surplus[one])) * requests[one].gpu_milli for one, n in bins.fills[at].items())
    return int(bins.free[at].sum()) + held


def _pack_anew(
    bins: Bins,
    nodes: Sequence[NodeClass],
    requests: Sequence[RequestClass],
    placed: list[int],
    which: int,
    group: Sequence[int],
) -> bool:
    """Whether one more of class `which` found room on these nodes, at the cost of none that must stay."""
    here = {one: sum(bins.fills[at].get(one, 0) for at in group) for at in group for one in bins.fills[at]}
    model = cp_model.CpModel()
    takes = [fill_variables(model, nodes[int(bins.kind[at])], requests, {**here, which: 0}) for at in group]
    sums = {one: cp_model.LinearExpr.sum([take[one] for take in takes if one in take]) for one in here}
    for one, count in here.items():
        if one != which:
            model.add(sums[one] <= count)
            model.add(sums[one] >= min(count, requests[one].required - placed[one] + count))
    wanted = cp_model.LinearExpr.sum([take[which] for take in takes if which in take])
    model.add(wanted > here.get(which, 0))
    model.add(wanted <= here.get(which, 0) + requests[which].required - placed[which])
    model.maximize(sum(take * requests[one].value for each in takes for one, take in each.items()))
    for at, each in zip(group, takes, strict=True):
        for one, take in each.items():
            model.add_hint(take, bins.fills[at].get(one, 0))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = _EFFORT
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return False
    fills = [{one: solver.value(take) for one, take in each.items()} for each in takes]
    _apply_fills(bins, requests, placed, group, fills)
    return True


def _apply_fills(
    bins: Bins,
    requests: Sequence[RequestClass],
    placed: list[int],
    group: Sequence[int],
    fills: Sequence[Fill],
) -> None:
    for at, fill in zip(group, fills, strict=True):
        for one, count in bins.fills[at].items():
            placed[one] -= count
        bins.clear(at)
        for one, count in bins.preload(at, fill, requests).items():
            placed[one] += count
