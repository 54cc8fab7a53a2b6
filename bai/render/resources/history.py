"""A cluster's history: applies, and orders to its loop, made from the audit; in words, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
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


def history_entry(told: Audit, actions: Mapping[str, int]) -> HistoryEntry:
    """`told`: an entry of the audit that is of no resource. `actions`: how many an apply has of each verb."""
    if told.verb != "apply":
        return HistoryEntry(told.at, told.verb, told.actor, told.commit, why=told.cause)
    done = {verb: count for verb, count in actions.items() if verb != "failed"}
    return HistoryEntry(
        told.at, "apply", told.actor, told.commit, told.plan,
        done=done, failed=actions.get("failed", 0), apply=told.apply,
    )  # fmt: skip


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
