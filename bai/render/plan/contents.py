"""The long lists of a plan as they are told: one by one where they are short or all is asked for, else what
is alike together, and only the largest. Everything that is left out is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, plural
from bai.render.plan.changes import ChangeEntry, change_entries
from bai.render.plan.placements import PlacementRow, ShapeRow, placement_rows, shape_rows
from bai.render.plan.sections import unreached_lines
from bai.render.plan.waits import WaitGroup, wait_groups

if TYPE_CHECKING:
    from planner.model.types import NodeInfo
    from reconciler.values.plan import Plan

FEW_ROWS = 24
"""So many places are told with their cores and devices."""
MOST_ENTRIES = 30
MOST_SHAPES = 16
MOST_WAIT_GROUPS = 12
MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class PlanContents:
    """What is told of a plan. Either `rows` or `shapes` has the places; the texts say what is left out, and
    are empty where nothing is."""

    entries: Sequence[ChangeEntry]
    more_entries: str
    rows: Sequence[PlacementRow]
    shapes: Sequence[ShapeRow]
    more_shapes: str
    waits: Sequence[WaitGroup]
    more_waits: str
    warnings: Sequence[str]
    most_lines: int
    """Of drift, warnings and the like."""
    short: bool
    """Whether `details` would tell more."""


def plan_contents(plan: Plan, nodes: Mapping[str, NodeInfo], *, details: bool) -> PlanContents:
    """`details`: everything, one by one."""
    every = 1 << 62
    entries = change_entries(plan, details=details)
    shown_entries, left_entries = _largest(
        [len(one.names) for one in entries], every if details else MOST_ENTRIES
    )
    rows = placement_rows(plan, nodes)
    shapes = [] if details or len(rows) <= FEW_ROWS else shape_rows(plan, nodes)
    shown_shapes, left_shapes = _largest([len(one.sessions) for one in shapes], MOST_SHAPES)
    waits = wait_groups(plan.waits, details=details)
    shown_waits, left_waits = _largest(
        [len(one.waits) for one in waits], every if details else MOST_WAIT_GROUPS
    )
    warnings = [*unreached_lines(plan), *map(clean, plan.warnings)]
    most = every if details else MOST_LINES
    together = any(one.similar for one in entries) or len(waits) < len(plan.waits) or bool(shapes)
    short = together or bool(left_entries) or max(len(plan.drifts), len(warnings)) > most
    return PlanContents(
        entries=[entries[at] for at in shown_entries],
        more_entries=f"and {plural(left_entries, 'more change')}" if left_entries else "",
        rows=[] if shapes else rows,
        shapes=[shapes[at] for at in shown_shapes],
        more_shapes=f"and {plural(left_shapes, 'more session')} of other sizes" if left_shapes else "",
        waits=[waits[at] for at in shown_waits],
        more_waits=f"and {plural(left_waits, 'more session')}, for other reasons" if left_waits else "",
        warnings=warnings,
        most_lines=most,
        short=short,
    )


def _largest(sizes: Sequence[int], most: int) -> tuple[list[int], int]:
    """Which of them to tell, in their order, and how many are in the others."""
    if len(sizes) <= most:
        return list(range(len(sizes))), 0
    ranked = sorted(range(len(sizes)), key=lambda at: (-sizes[at], at))
    return sorted(ranked[:most]), sum(sizes[at] for at in ranked[most:])
