"""A cluster's history: applies, and orders to its loop, made from the audit; in words, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bai.render.humanize import clean, iso_time
from bai.render.plan.action_words import SYMBOLS
from bai.render.resources.audit import author_text

if TYPE_CHECKING:
    from reconciler.values.records import Audit

_DIRECTIVE_WORDS = {
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
class HistoryEntry:
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
    apply: str = ""
    """Of an apply: its name."""


def history_entries(entries: Iterable[Audit]) -> list[HistoryEntry]:
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
                HistoryEntry(
                    entry.at,
                    "apply",
                    entry.actor,
                    entry.commit,
                    entry.plan,
                    done=counts,
                    failed=failed,
                    apply=entry.apply,
                )
            )
        elif not entry.resource:
            found.append(HistoryEntry(entry.at, entry.verb, entry.actor, entry.commit, why=entry.cause))
    return found[::-1]


def outcome_text(each: HistoryEntry) -> str:
    """`+2 ~1 -/+0 -1`, or what was told."""
    if each.verb != "apply":
        why = f" ({clean(each.why)})" if each.why else ""
        return f"{_DIRECTIVE_WORDS.get(each.verb, each.verb)}{why}"
    parts = [f"{SYMBOLS[verb]}{each.done[verb]}" for verb in SYMBOLS if each.done.get(verb)]
    failed = [f"{each.failed} failed"] if each.failed else []
    return " ".join([*parts, *failed]) or "nothing"


def history_json(each: HistoryEntry, author: str = "") -> dict[str, object]:
    """One item of `bai.history/v1`; `author`: of its commit, as git says."""
    return {
        "at": iso_time(each.at),
        "verb": each.verb,
        "actor": each.actor,
        "commit": each.commit,
        "author": author,
        "plan": each.plan,
        "why": each.why,
        "done": dict(each.done),
        "failed": each.failed,
    }


def history_line(each: HistoryEntry, subject: str, author: str = "") -> str:
    """One entry in words; `subject` and `author`: of its commit, as git says."""
    commit = each.commit[:12] or ("(files)" if each.verb == "apply" else "")
    about = f"  {clean(subject)}{author_text(author)}" if subject or author else ""
    plan = f"  plan {each.plan[:12]}" if each.plan else ""
    return f"{iso_time(each.at)}  {commit:12}  {outcome_text(each)}  by {clean(each.actor)}{plan}{about}"
