"""`bai history`: what was applied, and what loops were told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.render.printout import Printout, plain_lines
from bai.render.resources.history import HistoryEntry, history_entry, history_json, history_line
from reconciler.sources.commit_facts import CommitFacts

if TYPE_CHECKING:
    from bai.queries.models import HistoryQuery
    from bai.queries.view import ClusterView


def answer(view: ClusterView, query: HistoryQuery) -> Printout:
    """The newest comes first."""
    found = newest_entries(view, query.tail)
    facts = view.commit_facts(each.commit for each in found)
    unknown = CommitFacts()
    if query.form == "json":
        items = [history_json(each, facts.get(each.commit, unknown).author) for each in found]
        return Printout("bai.history/v1", {"items": items})
    lines = []
    for each in found:
        author, subject = facts.get(each.commit, unknown)
        lines.append(history_line(each, subject, author))
    notes = () if found else ("Nothing was applied yet.",)
    return Printout(blocks=(plain_lines(lines),), notes=notes)


def newest_entries(view: ClusterView, count: int) -> list[HistoryEntry]:
    """So many, the newest first: what applies did is counted where it is written down."""
    if view.store is None:
        return []
    told = view.store.cluster_entries(view.cluster, count)
    applies = [each.apply for each in told if each.verb == "apply" and each.apply]
    actions = view.store.count_actions(view.cluster, applies)
    return [history_entry(each, actions.get(each.apply, {})) for each in told]
