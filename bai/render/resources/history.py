"""A cluster's history: applies, and orders to its loop, made from the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bai.render.humanize import clean, moment
from bai.render.plan.sections import SYMBOLS
from reconciler.values.records import Audit

_TOLD = {
    "pin": "held there",
    "unpin": "no longer held",
    "suspend": "suspended",
    "resume": "resumed",
    "approve": "approved",
    "unlock": "lease broken",
    "rebuild": "store rebuilt",
    "restore": "store restored",
    "move": "store moved",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """One apply, or one order."""

    at: float
    verb: str
    actor: str
    commit: str = ""
    plan: str = ""
    why: str = ""
    done: Mapping[str, int] = field(default_factory=dict)
    """Of an apply: verb → actions."""
    failed: int = 0


def moments(entries: Iterable[Audit]) -> list[Moment]:
    """The newest first. `entries`: of one cluster, in their order."""
    all_ = list(entries)
    actions: dict[str, Counter[str]] = {}
    for entry in all_:
        if entry.resource and entry.apply:
            actions.setdefault(entry.apply, Counter())[entry.verb] += 1
    found = []
    for entry in all_:
        if entry.verb == "apply":
            counts = dict(actions.get(entry.apply, {}))
            failed = counts.pop("failed", 0)
            found.append(
                Moment(entry.at, "apply", entry.actor, entry.commit, entry.plan, done=counts, failed=failed)
            )
        elif not entry.resource:
            found.append(Moment(entry.at, entry.verb, entry.actor, entry.commit, why=entry.cause))
    return found[::-1]


def words(each: Moment) -> str:
    """`+2 ~1 -/+0 -1`, or what was told."""
    if each.verb != "apply":
        why = f" ({clean(each.why)})" if each.why else ""
        return f"{_TOLD.get(each.verb, each.verb)}{why}"
    parts = [f"{SYMBOLS[verb]}{each.done[verb]}" for verb in SYMBOLS if each.done.get(verb)]
    failed = [f"{each.failed} failed"] if each.failed else []
    return " ".join([*parts, *failed]) or "nothing"


def moment_json(each: Moment) -> dict[str, object]:
    """One item of `bai.history/v1`."""
    return {
        "at": moment(each.at),
        "verb": each.verb,
        "actor": each.actor,
        "commit": each.commit,
        "plan": each.plan,
        "why": each.why,
        "done": dict(each.done),
        "failed": each.failed,
    }
