"""Entries of the audit: in words, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bai.render.humanize import clean, iso_time, truncate_around_difference

if TYPE_CHECKING:
    from reconciler.values.records import Audit

_MOST_AUTHOR = 80
"""Characters of a name and address."""


def audit_json(entry: Audit, author: str = "") -> dict[str, object]:
    """One entry of `bai.audit/v1`; `author`: of its commit, as git says."""
    return {
        "seq": entry.seq,
        "at": iso_time(entry.at),
        "actor": entry.actor,
        "verb": entry.verb,
        "resource": entry.resource,
        "cause": entry.cause,
        "commit": entry.commit,
        "author": author,
        "plan": entry.plan,
        "apply": entry.apply,
        "before": entry.before,
        "after": entry.after,
        "changes": [{"path": c.path, "before": c.before, "after": c.after} for c in entry.changes],
    }


def audit_lines(entry: Audit, author: str = "", *, changes: bool) -> list[str]:
    """One entry in words; `author`: of its commit, as git says."""
    what = f"{clean(entry.verb)} {clean(entry.resource)}".rstrip()
    cause = f": {clean(entry.cause)}" if entry.cause else ""
    commit = f" at {clean(entry.commit[:12])}{author_text(author)}" if entry.commit else ""
    plan = f" plan {clean(entry.plan[:12])}" if entry.plan else ""
    lines = [f"{iso_time(entry.at)}  {what}{cause}  by {clean(entry.actor)}{commit}{plan}"]
    if changes:
        lines += (f"    {path}: {before} -> {after}" for path, before, after in change_texts(entry))
    return lines


def change_texts(entry: Audit) -> Iterator[tuple[str, str, str]]:
    """Each field that changed, with what was there and what is, cut so that the difference is seen."""
    for each in entry.changes:
        before, after = truncate_around_difference(each.before or "-", each.after or "-", 60)
        yield clean(each.path), before, after


def author_text(author: str) -> str:
    """Who wrote a commit, after its name; nothing where git does not know."""
    return f" of {clean(author, _MOST_AUTHOR)}" if author else ""
