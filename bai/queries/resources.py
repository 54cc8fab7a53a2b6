"""`bai get`: resources with their phase, and why sessions wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bai.queries.apps.by_session import apps_by_session
from bai.queries.facts.hold_notes import hold_notes
from bai.queries.names.kind_names import kind_of, no_such_kind
from bai.queries.names.resource_names import resolve_name
from bai.render.humanize import clean, short_name
from bai.render.printout import Printout, Table, plain_lines
from bai.render.resources.apps import app_lines
from bai.render.resources.session_filter import (
    SessionFilter,
    choose_rows,
    parse_phases,
    parse_selector,
    sort_rows,
)
from bai.render.resources.status import resource_rows, session_facts, session_json, session_row, wait_line
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.queries.models import GetQuery
    from bai.queries.view import ClusterView
    from bai.render.printout import Lines
    from bai.render.resources.status import SessionRow
    from planner.model.types import Wait
    from reconciler.values.apps.app import App
    from reconciler.values.state import Actual, Desired
    from schemas.repository.repository import Repository

_COLUMNS = ("session", "phase", "ready", "node", "age")
_WIDE_COLUMNS = ("generation", "group", "cores", "memory", "devices")


def answer(view: ClusterView, query: GetQuery) -> Printout:
    """Raises NoSuchResource, AmbiguousName, CommandError."""
    return answer_part(view, query, slice)


def answer_part(view: ClusterView, query: GetQuery, part: Callable[[int], slice]) -> Printout:
    """The same with some of the sessions, or nodes: those that `part` says when it hears how many there are.
    The others are not put into words."""
    if query.kind and query.kind != kind_of(query.kind):
        raise no_such_kind(query.kind)
    if query.kind == "Node":
        from bai.queries.nodes import list_nodes

        return list_nodes(view, query.name, query.form, part)
    asked = session_filter(view, query)
    identities = {each for each in {*view.wanted, *view.observed.existing} if view.lists(each)}
    only = chosen_identities(query.name, query.kind, query.project, identities)
    rows = _session_rows(view, query, asked, only, part)
    waits = view.waits if query.kind in ("Session", "") else {}
    apps = apps_by_session(view, [row.id for row in rows]) if query.form != "text" or query.name else {}
    notes = hold_notes(view.directives)
    if query.form == "json":
        document = {
            "complete": view.observed.complete,
            "items": [
                *_session_items(view, query.kind, waits, rows, apps),
                *_items(view, query.kind, only),
            ],
        }
        return Printout("bai.resources/v1", document, notes=notes)
    blocks: list[Table | Lines] = []
    if query.kind in ("Session", ""):
        wide = query.form == "wide"
        blocks.append(_session_table(rows, waits, apps, wide=wide))
        if apps and not wide:
            blocks.append(plain_lines(line for found in apps.values() for line in app_lines(found)))
    if query.kind == "Service":
        from bai.queries.services.listing import service_table

        blocks.append(service_table(view, only))
    elif query.kind != "Session":
        blocks.append(_resource_table(view, query.kind, only))
    warnings = tuple(f"warning: not everything could be observed: {clean(e)}" for e in view.observed.errors)
    return Printout(blocks=tuple(blocks), notes=notes, warnings=warnings)


def session_filter(view: ClusterView, query: GetQuery) -> SessionFilter:
    """Raises CommandError."""
    names = {*query.owners, view.user} - {""}
    owners = owner_names(names, view.desired.repository) if query.mine else None
    return SessionFilter(parse_phases(query.phase), parse_selector(query.selector), owners)


def owner_names(names: Collection[str], repository: Repository) -> frozenset[str]:
    """By which a session may name one of these as its owner: also as the User document that one means. In
    lower case."""
    found = set(names)
    for user in [repository.user_of(name) for name in names]:
        if user is not None:
            found |= {user.name, *([user.spec.email] if user.spec.email else [])}
    return frozenset(name.lower() for name in found)


def chosen_identities(name: str, kind: str, project: str, identities: set[str]) -> set[str]:
    """The identities asked for. Raises NoSuchResource, AmbiguousName."""
    chosen = {resolve_name(name, identities, kind)} if name else identities
    if project:
        theirs = {ref_of(identity).project for identity in identities} - {""}
        if project not in theirs:
            resolve_name(project, identities, "Project")
        chosen = {identity for identity in chosen if ref_of(identity).project == project}
    return chosen


def session_document(desired: Desired, actual: Actual, identity: str) -> Mapping[str, object]:
    """As it is written; as it was applied where it is written no more."""
    item = actual.existing.get(identity)
    return desired.documents.get(identity) or (item.recorded.document if item else {})


def _session_rows(
    view: ClusterView,
    query: GetQuery,
    asked: SessionFilter,
    only: Collection[str],
    part: Callable[[int], slice],
) -> list[SessionRow]:
    sessions = session_facts(view.observed, view.wanted, view.now, only)

    def document_of(identity: str) -> Mapping[str, object]:
        return session_document(view.desired, view.observed, identity)

    found = sort_rows(choose_rows(sessions, asked, document_of), query.sort)
    return list(map(session_row, found[part(len(found))]))


def _session_table(
    rows: Sequence[SessionRow],
    waits: Mapping[str, Wait],
    apps: Mapping[str, Sequence[App]],
    *,
    wide: bool,
) -> Table:
    """With a column of apps where one of the sessions has any."""
    columns, cells = [*_COLUMNS], []
    if wide:
        columns += [*_WIDE_COLUMNS, *(["apps"] if apps else [])]
    for row in rows:
        line = [short_name(row.id), row.phase, row.ready, row.nodes, row.age]
        if wide:
            line += [str(row.generation or ""), row.group, row.cores, row.memory, row.devices]
            line += [" ".join(app.url for app in apps.get(row.id, ()) if app.url)] if apps else []
        cells.append((*line, row.about or wait_line(waits.get(row.id))))
    return Table((*columns, "about"), tuple(cells), empty="There is no Session.")


def _resource_table(view: ClusterView, kind: str, only: Collection[str]) -> Table:
    rows = tuple(tuple(row) for row in resource_rows(view.observed, view.wanted, kind) if row[0] in only)
    return Table(("resource", "state", "generation"), rows, empty=f"There is no {kind or 'resource'}.")


def _session_items(
    view: ClusterView,
    kind: str,
    waits: Mapping[str, Wait],
    rows: Sequence[SessionRow],
    apps: Mapping[str, Sequence[App]],
) -> list[dict[str, Any]]:
    if kind not in ("Session", ""):
        return []
    existing = view.observed.existing
    return [session_json(row, existing.get(row.id), waits.get(row.id), apps.get(row.id, ())) for row in rows]


def _items(view: ClusterView, kind: str, only: Collection[str]) -> list[dict[str, Any]]:
    """Of what is no session."""
    if kind == "Session":
        return []
    return [
        {
            "id": name,
            "kind": ref_of(name).kind,
            "applied": name in view.observed.existing,
            "state": state,
            "generation": int(generation or 0),
            **_service_item(view, name),
        }
        for name, state, generation in resource_rows(view.observed, view.wanted, kind)
        if name in only
    ]


def _service_item(view: ClusterView, identity: str) -> dict[str, Any]:
    """What a service's item has beyond others."""
    if ref_of(identity).kind != "Service":
        return {}
    from bai.queries.services.facts import service_facts
    from bai.render.resources.services import service_json

    return service_json(service_facts(view, identity))
