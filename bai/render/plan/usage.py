"""Quota and group use of a Plan as rows of words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, slot_amount

if TYPE_CHECKING:
    from reconciler.values.plan import Plan


@dataclass(frozen=True, slots=True)
class SlotUsageRow:
    """One slot of one quota or group. `full`: thousandths of the limit that are used after the plan."""

    name: str
    slot: str
    before: str
    after: str
    limit: str
    full: int
    changed: bool


def quota_rows(plan: Plan) -> list[SlotUsageRow]:
    """Every limited slot of every quota."""
    return [
        row
        for use in plan.quotas
        for row in slot_rows(f"{clean(use.quota)} ({clean(use.subject)})", use.limit, use.before, use.after)
    ]


def group_rows(plan: Plan) -> list[SlotUsageRow]:
    """What each resource group has and gives."""
    return [
        row for use in plan.groups for row in slot_rows(clean(use.group), use.capacity, use.before, use.after)
    ]


def fit_lines(plan: Plan) -> list[str]:
    """How many more sessions of each size fit: `a100: 12 x 1 GPU (was 16), 1 x 8 GPUs`."""
    lines = []
    for use in plan.groups:
        parts = [
            _fit_text(name, count, use.fits_before.get(name, count)) for name, count in use.fits_after.items()
        ]
        if parts:
            lines.append(f"{clean(use.group)}: {', '.join(parts)}")
    return lines


def _fit_text(name: str, after: int, before: int) -> str:
    was = f" (was {before})" if before != after else ""
    return f"{after} x {clean(name)}{was}"


def slot_rows(
    name: str, limit: Mapping[str, int], before: Mapping[str, int], after: Mapping[str, int]
) -> Iterator[SlotUsageRow]:
    """One for each slot that is limited."""
    for key, most in sorted(limit.items()):
        now, then = before.get(key, 0), after.get(key, 0)
        yield SlotUsageRow(
            name=name,
            slot=clean(key),
            before=slot_amount(key, now),
            after=slot_amount(key, then),
            limit=slot_amount(key, most),
            full=then * 1000 // most if most else (1000 if then else 0),
            changed=now != then,
        )
