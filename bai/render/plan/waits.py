"""Who waits, and for what: sessions that the same thing holds back are told together where there are many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, iso_time, name_list, plural, shared_lines, short_name

if TYPE_CHECKING:
    from planner.model.types import Reason, Wait

FEW_WAITS = 8
"""So many are told one by one, whatever holds them back."""
_MOST_REASONS = 3
_MOST_NAMES = 6


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """Sessions of one resource group that the same thing holds back, in the order of the plan; never
    empty."""

    waits: tuple[Wait, ...]

    @property
    def group(self) -> str:
        return self.waits[0].group

    @property
    def names(self) -> str:
        return name_list((short_name(wait.session) for wait in self.waits), _MOST_NAMES)

    @property
    def title(self) -> str:
        """`312 sessions in group h100 wait for GPUs`; of one session, its group alone."""
        if len(self.waits) == 1:
            return f"in group {clean(self.group)}"
        verb = _wait_verb(next(iter(self.waits[0].reasons), None))
        return f"{plural(len(self.waits), 'session')} in group {clean(self.group)} {verb}"

    @property
    def reasons(self) -> list[str]:
        """Why they wait, then what would end it, headed by what is common to them."""
        return self.lines if len(self.waits) == 1 else [f"{self.title}:", *self.lines]

    @property
    def lines(self) -> list[str]:
        """Why they wait, then what would end it."""
        return wait_lines(self.waits[0]) if len(self.waits) == 1 else list(_common_lines(self.waits))


def wait_groups(waits: Sequence[Wait], *, details: bool = False) -> list[WaitGroup]:
    """The waits in their order, told together by what holds them back: resource group, codes of the reasons,
    and what is lacking. One by one where they are few, and with `details`."""
    if details or len(waits) <= FEW_WAITS:
        return [WaitGroup((wait,)) for wait in waits]
    found: dict[object, list[Wait]] = {}
    for wait in waits:
        key = (wait.group, tuple((reason.code, reason.lacks) for reason in wait.reasons))
        found.setdefault(key, []).append(wait)
    return [WaitGroup(tuple(those)) for those in found.values()]


def _wait_verb(reason: Reason | None) -> str:
    code, lacks = (reason.code, clean(reason.lacks)) if reason is not None else ("", "")
    match code:
        case "no-capacity":
            return f"wait for {lacks or 'room'}"
        case "impossible":
            return f"ask for more {lacks} than can be given there" if lacks else "ask for what it cannot give"
        case "quota":
            return f"are held back by {lacks or 'a quota'}"
        case "starts-at":
            return "wait for their time to start"
        case "dependency":
            return "wait for other sessions"
        case "held":
            return "are held"
        case "head-of-line":
            return "wait behind the first of the queue"
        case "":
            return "wait"
        case _:
            return f"wait: {clean(code)}"


def _common_lines(waits: Sequence[Wait]) -> Iterator[str]:
    """The reasons that most of them have, how many have each, and who gets room first."""
    reasons = [list(map(_reason_text, wait.reasons)) for wait in waits]
    yield from shared_lines(reasons, _MOST_REASONS, _other_reasons)
    yield from _release_lines(waits)
    unknown, passed = sum(wait.cut_short for wait in waits), sum(wait.passed_over for wait in waits)
    if unknown:
        yield (
            f"what would free {unknown} of them is not known: more runs and waits than the plan plays through"
        )
    if passed:
        yield f"later sessions were placed before {passed} of them"


def _reason_text(reason: Reason) -> str:
    return f"{clean(reason.code)}: {clean(reason.message)}"


def _other_reasons(count: int) -> str:
    return f"and {plural(count, 'more reason')} of these kinds, with other numbers"


def _release_lines(waits: Sequence[Wait]) -> Iterator[str]:
    """The first in the queue for whom it is known, and the earliest time that is."""
    freed = next((wait for wait in waits if wait.freed_by), None)
    if freed is not None:
        latest = f", at the latest at {iso_time(freed.latest)}" if freed.latest is not None else ""
        yield f"{short_name(freed.session)} is first freed by {clean(freed.freed_by)}{latest}"
    timed = [(wait.latest, at) for at, wait in enumerate(waits) if wait.latest is not None]
    if timed:
        latest_at, at = min(timed)
        if waits[at] is not freed:
            name, when = short_name(waits[at].session), iso_time(latest_at)
            yield f"the first that is known to fit is {name}, at the latest at {when}"


def wait_lines(wait: Wait) -> list[str]:
    """Why a session waits, one reason to a line, then what would end the wait."""
    lines = list(map(_reason_text, wait.reasons))
    if wait.freed_by:
        lines.append(f"first freed by {clean(wait.freed_by)}")
    if wait.latest is not None:
        lines.append(f"fits at the latest at {iso_time(wait.latest)}")
    if wait.cut_short:
        lines.append("what would free it is not known: more runs and waits than the plan plays through")
    if wait.passed_over:
        lines.append("a later session was placed before it")
    return lines
