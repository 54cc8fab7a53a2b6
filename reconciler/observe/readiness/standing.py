"""How a replica stands after each answer. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from reconciler.observe.readiness.questions import Question, Replica
from reconciler.values.services.readiness import Readiness
from schemas.problems.text import printable

_LONGEST = 200
"""Characters of what a reason may say: some of it comes from the replica."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`refused`: at once, so that asking again soon tells more; `late`: it used up its time."""

    good: bool
    why: str = ""
    refused: bool = False
    late: bool = False


Ask = Callable[[Replica, Question], Answer]
"""Never raises; may take longer than the question's time."""


def late(question: Question) -> Answer:
    """None came in time."""
    return Answer(False, f"{question.what}: no answer within {question.timeout:g} s", late=True)


@dataclass(frozen=True, slots=True)
class Standing:
    """`readiness`: None before the first answer, of both probes where a replica has two. Counts are of bad
    answers in a row."""

    readiness: Readiness | None = None
    bad: int = 0
    bad_liveness: int = 0
    lived: bool = False
    """It has answered its liveness probe once."""
    waits: bool = False
    """It is ready but for that."""

    @property
    def ready(self) -> bool:
        return self.readiness is not None and self.readiness.ready


def after_answer(
    standing: Standing, answer: Answer, failures: int, now: float, *, also_lives: bool = False
) -> Standing:
    """One good answer makes it ready, `failures` bad ones in a row make a ready one unready. `also_lives`: it
    has a liveness probe, and is not ready before it has answered that as well."""
    if answer.good:
        if also_lives and not standing.lived:
            return replace(standing, bad=0, waits=True)
        return replace(standing, readiness=_turned(standing, True, "", now), bad=0)
    bad = standing.bad + 1
    if standing.ready and bad < failures:
        return replace(standing, bad=bad)
    readiness = _turned(standing, False, short(answer.why), now)
    return replace(standing, readiness=readiness, bad=bad, waits=False)


def after_liveness(
    standing: Standing, answer: Answer, question: Question, age: float, now: float
) -> Standing:
    """`age`: seconds since its start. It is dead after so many bad answers in a row as the question says,
    none of them within its grace unless it had answered before; a good one takes that back."""
    if answer.good:
        readiness = _turned(standing, True, "", now) if standing.waits else standing.readiness
        if readiness is not None and readiness.dead:
            readiness = replace(readiness, dead="")
        return replace(standing, readiness=readiness, bad_liveness=0, lived=True, waits=False)
    if standing.waits:
        why = short(f"it has not answered its liveness probe yet: {answer.why}")
        standing = replace(standing, readiness=_turned(standing, False, why, now))
    if not standing.lived and age <= question.grace:
        return standing
    bad = standing.bad_liveness + 1
    readiness = standing.readiness
    if bad >= question.failures and (readiness is None or not readiness.dead):
        readiness = readiness or Readiness(False, now, "it has not answered yet")
        times = f"{bad} times in a row" if bad > 1 else "once"
        readiness = replace(readiness, dead=short(f"it failed its liveness probe {times}: {answer.why}"))
    return replace(standing, readiness=readiness, bad_liveness=bad)


def at_rest(standing: Standing, phase: str, now: float) -> Standing:
    """It does not run."""
    return replace(standing, readiness=_turned(standing, False, f"it is {phase}", now), waits=False)


def without_question(standing: Standing, began: float, *, also_lives: bool = False) -> Standing:
    """It runs, and nobody asks whether it is ready; `began`: since when, in seconds since the epoch."""
    if also_lives and not standing.lived:
        return replace(standing, waits=True)
    return replace(standing, readiness=_turned(standing, True, "", began))


def short(why: str) -> str:
    """Fit for a terminal, and of a length for one line."""
    return printable(" ".join(why.split()))[:_LONGEST]


def _turned(standing: Standing, ready: bool, why: str, now: float) -> Readiness:
    """The same object where nothing is new; its time changes with `ready` alone."""
    before = standing.readiness
    if before is None:
        return Readiness(ready, now, why)
    if before.ready == ready:
        return before if before.why == why else replace(before, why=why)
    return replace(before, ready=ready, since=now, why=why)
