"""Hours of cores, memory and accelerators that were held during a time, by project, user or session. Pure.

Amounts are multiplied by milliseconds as whole numbers; only what is printed is divided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from reconciler.values.records import Allocation, Holdings
from reconciler.values.usage.allocations import current_allocation
from schemas.hardware.mig import whole_slices
from schemas.values.resource_ref import ref_of

By = Literal["project", "user", "session", "project-user"]
_MIG = re.compile(r"\.mig\.(([1-9])g\..+)")
CLOCK_TOLERANCE = 300.0
"""Seconds that the clocks of those who write and who read may be apart."""
MILLI_HOUR = 1000 * 3_600_000
"""Thousandths of a thing × milliseconds in an hour of it."""


@dataclass(frozen=True, slots=True)
class Period:
    """From a moment until before another; seconds since the epoch."""

    since: float
    until: float


@dataclass(slots=True)
class HeldTotal:
    """What one project, user or session held: thousandths × milliseconds, of memory bytes × milliseconds."""

    sessions: set[str] = field(default_factory=set)
    starts: set[tuple[str, float]] = field(default_factory=set)
    cpu: int = 0
    gpu: int = 0
    """Of whole accelerators."""
    memory: int = 0
    slots: dict[str, int] = field(default_factory=dict)
    """Of devices or MIG instances, by slot."""

    def add(self, held: Allocation, milliseconds: int, models: Collection[str]) -> None:
        """`models`: of the GPUs that there are, where a MIG profile's name alone does not say its size."""
        self.sessions.add(held.session)
        self.starts.add((held.session, held.began))
        self.cpu += held.cpu * milliseconds
        self.memory += held.memory * milliseconds
        for slot, milli in held.devices.items():
            self.slots[slot] = self.slots.get(slot, 0) + milli * milliseconds
            self.gpu += _of_whole(slot, milli * milliseconds, models)


def held_allocations(holdings: Holdings, now: float) -> Iterator[Allocation]:
    """All that is over, and what is held still, up to `now`. Of a start that held other amounts before, or
    that was seen to end and goes on nevertheless, only the rest is held still. What ends in times to come
    was written by a clock that was wrong, and counts for nothing."""
    last: dict[tuple[str, float], float] = {}
    for each in holdings.ended:
        key = (each.session, each.began)
        last[key] = max(each.ended, last.get(key, each.ended))
        if each.ended <= now + CLOCK_TOLERANCE:
            yield replace(each, ended=max(each.started, min(each.ended, now)))
    for record in holdings.recorded.values():
        held = current_allocation(record, now)
        if held is not None:
            started = max(held.started, last.get((held.session, held.began), held.started))
            if started < held.ended:
                yield replace(held, started=started)


def held_totals(
    found: Iterable[Allocation],
    period: Period,
    key: Callable[[Allocation], str],
    models: Collection[str] = (),
) -> dict[str, HeldTotal]:
    """By key, what was held in the period and nothing of what was held before or after."""
    totals: dict[str, HeldTotal] = {}
    for each in found:
        begin, end = max(each.started, period.since), min(each.ended, period.until)
        if begin < end:
            total = totals.setdefault(key(each), HeldTotal())
            total.add(each, round(end * 1000) - round(begin * 1000), models)
    return dict(sorted(totals.items()))


def key_of(by: By, user_of: Callable[[str], str]) -> Callable[[Allocation], str]:
    """What totals are kept by; `user_of`: a user's name, where an account or document has an e-mail
    address."""
    if by == "user":
        return lambda each: user_of(each.user)
    if by == "project":
        return lambda each: ref_of(each.session).project
    if by == "project-user":
        # No project has a slash in its name: what is before the first is the project's.
        return lambda each: f"{ref_of(each.session).project}/{user_of(each.user)}"
    return lambda each: each.session


def names_of(by: str, key: str) -> dict[str, str]:
    """What a key stands for: `{"project": "vision", "user": "ada"}`."""
    words = by.split("-")
    return dict(zip(words, key.split("/", 1) if len(words) > 1 else [key], strict=True))


def _of_whole(slot: str, amount: int, models: Collection[str]) -> int:
    """A MIG instance is as large a part of its GPU as it has compute slices."""
    match = _MIG.search(slot)
    return amount if match is None else amount * int(match[2]) // whole_slices(match[1], models)
