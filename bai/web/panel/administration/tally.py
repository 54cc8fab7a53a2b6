"""What sessions hold and wait for together: by project, by user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bai.queries.usage import read_usage, user_name
from bai.render.humanize import format_milli, iso_time, size
from bai.render.resources.session_filter import PHASES
from bai.render.resources.status import session_facts
from reconciler.values.documents.session_subjects import session_user
from reconciler.values.records import HOLDING
from reconciler.values.usage.totals import MILLI_HOUR, By, Period

if TYPE_CHECKING:
    from bai.render.resources.status import SessionFacts
    from bai.web.pass_view import PassView

USAGE_DAYS = 30
"""Of the hours that are shown beside what is held now."""


@dataclass(slots=True)
class _Sum:
    phases: Counter[str] = field(default_factory=Counter)
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory: int = 0
    oldest: float | None = None

    def add(self, facts: SessionFacts) -> None:
        self.phases[facts.phase] += 1
        if facts.phase in HOLDING:
            self.gpu_milli += facts.gpu_milli
            for kernel in facts.kernels:
                self.cpu_milli += kernel.cpu_milli
                self.memory += kernel.memory
        elif facts.phase == "PENDING" and facts.item is not None:
            began = facts.item.recorded.enqueued_at
            if began is not None and (self.oldest is None or began < self.oldest):
                self.oldest = began


@dataclass(frozen=True, slots=True)
class Tally:
    """`phases`: in the order that sessions go through them, each with its count; what is held in words, empty
    for nothing; `since`: from when on the first of those who wait does (ISO 8601)."""

    phases: tuple[tuple[str, int], ...] = ()
    gpus: str = ""
    cores: str = ""
    memory: str = ""
    since: str = ""

    def count(self, phase: str) -> int:
        return dict(self.phases).get(phase, 0)


@dataclass(frozen=True, slots=True)
class Hours:
    """What was held in the last days, in words; empty for nothing."""

    gpu: str = ""
    cpu: str = ""


def tallies(view: PassView, *keys: Callable[[SessionFacts], str | None]) -> tuple[dict[str, Tally], ...]:
    """For each way to say by what: of the sessions that the viewer sees, but for those that it gives None."""
    sums = [(key, dict[str, _Sum]()) for key in keys]
    for facts in session_facts(view.actual, view.desired.digests, view.now):
        if view.sees(facts.id):
            for key, found in sums:
                if (name := key(facts)) is not None:
                    found.setdefault(name, _Sum()).add(facts)
    return tuple({name: _tally(one) for name, one in found.items()} for _, found in sums)


def _tally(found: _Sum) -> Tally:
    return Tally(
        phases=tuple((phase, found.phases[phase]) for phase in PHASES if found.phases[phase]),
        gpus=format_milli(found.gpu_milli) if found.gpu_milli else "",
        cores=format_milli(found.cpu_milli) if found.cpu_milli else "",
        memory=size(found.memory) if found.memory else "",
        since=iso_time(found.oldest),
    )


def owner_of(view: PassView, facts: SessionFacts) -> str:
    """The user's name, as quotas and accounts have it; empty where nobody is named."""
    session = view.desired.sessions().get(facts.id)
    if session is not None:
        return session_user(session, view.repository)
    record = facts.item.recorded if facts.item is not None else None
    if record is None:
        return ""
    spec = record.document.get("spec")
    written = str(spec.get("owner") or "") if isinstance(spec, dict) else ""
    return user_name(view.repository, written or (record.account.user if record.account else ""))


def hours_held(view: PassView, by: By) -> dict[str, Hours]:
    """By key, as `bai report usage` counts them. Raises StoreError."""
    totals, _ = read_usage(view, by, Period(view.now - USAGE_DAYS * 86_400, view.now))
    return {name: Hours(_hours(total.gpu), _hours(total.cpu)) for name, total in totals.items()}


def _hours(amount: int) -> str:
    return f"{amount / MILLI_HOUR:,.1f}" if amount else ""
