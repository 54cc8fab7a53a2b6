"""Who changed what: the audit, newest first, chosen by who, what and when, page by page back in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from bai.queries.names.moments import parse_time
from bai.queries.names.resource_names import resolve_with_past
from bai.render.humanize import clean, iso_time
from bai.render.resources.audit import change_texts
from bai.web.dependencies import error_words
from bai.web.panel.views.paging import PER_PAGE, kept
from reconciler.sources.commit_facts import CommitFacts
from schemas.problems.errors.command import CommandError

if TYPE_CHECKING:
    from bai.web.pass_view import PassView
    from reconciler.values.records import Audit

VERBS = (
    "create", "update", "replace", "delete", "failed", "override", "apply", "suspend", "resume", "pin",
    "unpin", "approve", "unlock", "rebuild", "restore", "move",
)  # fmt: skip
MOST_CHANGES = 20
"""Fields of one entry that are shown."""
Text = Annotated[str, Field(max_length=300)]


class AuditPageQuery(BaseModel, frozen=True):
    """What is asked for, as the address says it; empty asks nothing. `actor`, `commit` and `plan`: how they
    begin; `since` and `until` as commands take them; `before`: the entry after those that are asked for."""

    resource: Text = ""
    actor: Text = ""
    verb: Text = ""
    commit: Text = ""
    plan: Text = ""
    since: Text = ""
    until: Text = ""
    before: Annotated[int, Field(ge=0, le=2**62)] = 0


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One entry; `at` as ISO 8601, `author` and `subject` of its commit, as git says. `changes`: field,
    before and after, the first of `change_count`."""

    seq: int
    at: str
    verb: str
    resource: str
    actor: str
    cause: str
    commit: str
    author: str
    subject: str
    plan: str
    changes: tuple[tuple[str, str, str], ...]
    change_count: int


@dataclass(frozen=True, slots=True)
class AuditPage:
    """`older`: what `before` is on the page of older ones, 0 where there is none; `problem`: why what is
    asked for means nothing."""

    asked: AuditPageQuery
    rows: tuple[AuditRow, ...]
    older: int
    problem: str
    verbs: tuple[str, ...] = VERBS

    def query(self, **changes: object) -> dict[str, object]:
        """Of a link that keeps what is asked for but for these changes: from the newest on, unless told."""
        return kept({**self.asked.model_dump(), "before": 0, **changes})


def audit_page(view: PassView, asked: AuditPageQuery) -> AuditPage:
    """Those that the viewer sees; about the cluster as a whole for who sees all of it. Raises StoreError."""
    try:
        found = _entries(view, asked)
    except CommandError as error:
        return AuditPage(asked, (), 0, clean(error_words(error)))
    older = found[PER_PAGE - 1].seq if len(found) > PER_PAGE else 0
    shown = [entry for entry in found[:PER_PAGE] if view.sees(entry.resource)]
    facts = view.commit_facts(entry.commit for entry in shown if entry.commit)
    nothing = CommitFacts()
    return AuditPage(
        asked, tuple(_row(view, entry, facts.get(entry.commit, nothing)) for entry in shown), older, ""
    )


def _entries(view: PassView, asked: AuditPageQuery) -> list[Audit]:
    """One more than a page has, newest first. Raises CommandError, StoreError."""
    store, now = view.store, view.now
    if store is None:
        return []
    found = store.audit(
        view.cluster,
        resource=resolve_with_past(asked.resource, view) if asked.resource else None,
        actor=asked.actor,
        verb=asked.verb,
        commit=asked.commit,
        plan=asked.plan,
        since=parse_time(asked.since, now).timestamp() if asked.since else None,
        until=parse_time(asked.until, now).timestamp() if asked.until else None,
        before=asked.before,
        projects=view.projects,
        limit=PER_PAGE + 1,
    )
    return list(reversed(found))


def _row(view: PassView, entry: Audit, facts: CommitFacts) -> AuditRow:
    return AuditRow(
        seq=entry.seq,
        at=iso_time(entry.at),
        verb=entry.verb,
        resource=entry.resource,
        actor=view.redact(clean(entry.actor)),
        cause=view.redact(clean(entry.cause)),
        commit=entry.commit,
        author=clean(facts.author, 80),
        subject=clean(facts.subject, 120),
        plan=entry.plan,
        changes=tuple(_changes(view, entry)),
        change_count=len(entry.changes),
    )


def _changes(view: PassView, entry: Audit) -> Iterator[tuple[str, str, str]]:
    for number, (path, before, after) in enumerate(change_texts(entry)):
        if number == MOST_CHANGES:
            return
        yield view.redact(path), view.redact(before), view.redact(after)
