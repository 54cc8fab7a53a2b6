"""What a Plan has to say, in words and order, for all renderers alike; no layout.

`changes`, `placements` and `waits` have its long lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bai.render.humanize import clean, iso_time, join_limited
from bai.render.plan.changes import change_kind

if TYPE_CHECKING:
    from reconciler.values.plan import Plan

MOST_REFUSALS = 20
REFUSED = "Refused: bai apply does not carry this out"
_SUMMARY = (
    ("provision", "to provision"),
    ("create", "to create"),
    ("update", "to update in place"),
    ("replace", "to replace"),
    ("delete", "to delete"),
    ("queue", "to queue"),
    ("stop", "to stop"),
)


def plan_summary(plan: Plan) -> str:
    """`Plan: 3 to create, 1 to update in place; 1 waits.`"""
    counts = Counter(change_kind(action) for action in plan.changes)
    waits = f"; {len(plan.waits)} {'waits' if len(plan.waits) == 1 else 'wait'}" if plan.waits else ""
    if not counts:
        return f"No changes{waits}."
    parts = [f"{counts[name]} {word}{_later_nodes(plan, name)}" for name, word in _SUMMARY if counts[name]]
    return f"Plan: {', '.join(parts)}{waits}."


def _later_nodes(plan: Plan, kind: str) -> str:
    """Nodes that follow in later waves."""
    if kind != "provision" or plan.rollout is None or not plan.rollout.later:
        return ""
    return f" (then {len(plan.rollout.nodes) - len(plan.rollout.wave)} more)"


def violation_lines(plan: Plan) -> list[str]:
    """Why it is not carried out, a line each; no more than a reader needs."""
    if not plan.violations:
        return []
    from reconciler.guards.judge import violation_text

    lines = [clean(violation_text(one) + (f" ({one.hint})" if one.hint else "")) for one in plan.violations]
    return at_most(lines, MOST_REFUSALS)


def override_lines(plan: Plan) -> list[str]:
    """What is put aside by annotations, a line each."""
    found = []
    for one in plan.overridden:
        what = f"{one.guard} is overridden for {one.resource} until {one.until}"
        found.append(clean(f"Policy/{one.policy}: {what}: {one.reason}"))
    return found


def plan_source(plan: Plan) -> str:
    """`cluster lab at 3f2a9c01d2e4`, or where the documents are uncommitted, their digest."""
    source = f"commit {clean(plan.commit[:12])}" if plan.commit else f"working files {clean(plan.tree[:12])}"
    targets = f", only {join_limited(map(clean, plan.targets))}" if plan.targets else ""
    return f"cluster {clean(plan.cluster)}, {source}{targets}"


def unreached_lines(plan: Plan) -> list[str]:
    """The nodes that did not answer, and since when."""
    lines = []
    for each in plan.unreached:
        since = f", since {iso_time(each.since)}" if each.since is not None else ""
        lines.append(
            f"{clean(each.node)} is not reached{since}: {clean(each.why)}; nothing is placed there, what "
            "may run there is left alone"
        )
    return lines


def at_most(lines: Sequence[str], most: int) -> list[str]:
    """So many of the lines, and how many more there are."""
    more = len(lines) - most
    return [*lines[:most], f"and {more} more"] if more > 0 else list(lines)
