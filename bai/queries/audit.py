"""`bai audit`: who changed what, from which commit, by which plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.queries.names.resource_names import resolve_with_past
from bai.render.printout import Printout, plain_lines
from bai.render.resources.audit import audit_json, audit_lines
from reconciler.sources.commit_facts import CommitFacts

if TYPE_CHECKING:
    from bai.queries.models import AuditQuery
    from bai.queries.view import ClusterView
    from reconciler.values.records import Audit


def answer(view: ClusterView, query: AuditQuery) -> Printout:
    """Oldest first. Raises NoSuchResource, AmbiguousName."""
    cluster, found = view.cluster, _entries(view, query)
    facts = view.commit_facts(entry.commit for entry in found)
    entries = [(entry, facts.get(entry.commit, CommitFacts()).author) for entry in found]
    if query.form == "json":
        shown = [audit_json(entry, author) for entry, author in entries]
        return Printout("bai.audit/v1", {"cluster": cluster, "entries": shown})
    lines = [line for entry, author in entries for line in audit_lines(entry, author, changes=query.changes)]
    notes = () if found else ("There is no such entry.",)
    return Printout(blocks=(plain_lines(lines),), notes=notes)


def _entries(view: ClusterView, query: AuditQuery) -> tuple[Audit, ...]:
    """Those about the cluster as a whole are for who sees all of it."""
    store, cluster = view.store, view.cluster
    if store is None:
        return ()
    identity = None
    if query.resource:
        identity = resolve_with_past(query.resource, view)
    found = store.audit(
        cluster, resource=identity, actor=query.actor, commit=query.commit, plan=query.plan,
        since=query.since, until=query.until, limit=query.tail,
    )  # fmt: skip
    return tuple(entry for entry in found if view.sees(entry.resource))
