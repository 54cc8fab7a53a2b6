"""Quotas as they stand: what is used, what is lent and borrowed, and whom they hold back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, duration, slot_amount, slot_amounts
from bai.web.panel.views.device_drawing import fill_step
from planner.admission.quota import quota_standings
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from bai.web.pass_view import PassView
    from planner.admission.quota import QuotaStanding
    from planner.model.types import QuotaLimit, SlotMap


@dataclass(frozen=True, slots=True)
class QuotaSlot:
    """One slot that a quota limits, amounts in words, empty for none. `fill` of ten
    steps; `lenders`: quotas that do not use all of theirs, as far as they are for the viewer to know, where
    something is `borrowed`; `reclaimable`: of that, what sessions hold that may be pushed out for an owner;
    `lent`: what others hold of what it does not use itself."""

    name: str
    used: str
    limit: str
    fill: int
    borrowed: str
    lenders: tuple[str, ...]
    reclaimable: str
    lent: str


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota. `is_outside`: kept by somebody else, such as Kubernetes; `running`: how many sessions, and
    of how many; `held_back`: sessions that wait for it; `rules`: what else it says, in words."""

    name: str
    subject_kind: str
    subject: str
    group: str
    cohort: str
    is_outside: bool
    running: str
    held_back: int
    slots: tuple[QuotaSlot, ...]
    rules: tuple[str, ...]

    @property
    def fullest(self) -> QuotaSlot | None:
        """The slot of which most is used."""
        return max(self.slots, key=lambda each: each.fill, default=None)

    @property
    def borrowed(self) -> str:
        """All that is borrowed, in words."""
        return ", ".join(f"{each.name} {each.borrowed}" for each in self.slots if each.borrowed)


def quota_rows(view: PassView) -> tuple[QuotaRow, ...]:
    """Those of projects that the viewer sees, and for who sees everything all others; by subject."""
    held_back = Counter(
        reason.lacks
        for wait in view.waits.values()
        if view.sees(wait.session)
        for reason in wait.reasons
        if reason.code == "quota"
    )
    standings = [each for each in quota_standings(view.present) if _is_seen(view, each.limit)]
    seen = {each.limit.name for each in standings}
    rows = (_row(each, held_back[f"quota {each.limit.name}"], seen) for each in standings)
    return tuple(sorted(rows, key=lambda row: (row.subject_kind, row.subject, row.name)))


def _is_seen(view: PassView, limit: QuotaLimit) -> bool:
    if view.sees(identity_of("Quota", limit.name)):
        return True
    return limit.subject_kind == "project" and view.sees(identity_of("Project", limit.subject))


def _row(found: QuotaStanding, held_back: int, seen: set[str]) -> QuotaRow:
    limit = found.limit
    most = "" if limit.concurrent is None else f" of {limit.concurrent}"
    return QuotaRow(
        name=limit.name,
        subject_kind=limit.subject_kind,
        subject=limit.subject,
        group=limit.group or "",
        cohort=limit.cohort or "",
        is_outside=limit.others is not None,
        running=f"{found.sessions}{most}",
        held_back=held_back,
        slots=tuple(_slots(found, seen)),
        rules=tuple(_rules(limit)),
    )


def _slots(found: QuotaStanding, seen: set[str]) -> Iterator[QuotaSlot]:
    limits = found.limit.slots
    for name, used in found.used.items():
        allowed = limits.get(name, 0 if limits and found.limit.unspecified == "zero" else None)
        if allowed is None:
            continue
        lenders = found.lenders.get(name, ())
        shown = tuple(clean(each) for each in lenders if each in seen)
        others = ("others of the cohort",) if len(shown) < len(lenders) else ()
        yield QuotaSlot(
            name=clean(name),
            used=slot_amount(name, used),
            limit=slot_amount(name, allowed),
            fill=fill_step(used, allowed or used),
            borrowed=_amount(name, found.borrowed),
            lenders=shown + others,
            reclaimable=_amount(name, found.reclaimable),
            lent=_amount(name, found.lent),
        )


def _amount(name: str, amounts: SlotMap) -> str:
    return slot_amount(name, amounts[name]) if amounts.get(name) else ""


def _rules(limit: QuotaLimit) -> Iterator[str]:
    """What it says beside totals."""
    if limit.per_session:
        yield f"a session has at most {slot_amounts(limit.per_session)}"
    if limit.per_kernel:
        yield f"a container has at most {slot_amounts(limit.per_kernel)}"
    if limit.per_kernel_least:
        yield f"a container has at least {slot_amounts(limit.per_kernel_least)}"
    if limit.kernels_per_session is not None:
        yield f"at most {limit.kernels_per_session} containers in a session"
    if limit.pending is not None:
        yield f"at most {limit.pending} wait"
    if limit.max_priority is not None:
        yield f"priority at most {limit.max_priority}"
    if limit.max_lifetime is not None:
        yield f"a session runs {duration(limit.max_lifetime)} at most"
    if limit.cohort and limit.borrowing is not None:
        yield f"borrows at most {slot_amounts(limit.borrowing) or 'nothing'}"
