"""`bai events`: what happened to resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.queries.names.resource_names import resolve_with_past
from bai.render.printout import Printout, plain_lines
from bai.render.resources.events import event_json, event_line

if TYPE_CHECKING:
    from bai.queries.models import EventsQuery
    from bai.queries.view import ClusterView
    from reconciler.values.records import Event


def answer(view: ClusterView, query: EventsQuery) -> Printout:
    """The last ones, oldest first. Raises NoSuchResource, AmbiguousName."""
    found = read_events(view, query)
    if query.form == "json":
        return Printout("bai.events/v1", {"events": [event_json(event) for event in found]})
    return Printout(blocks=(plain_lines(event_line(event) for event in found),))


def read_events(view: ClusterView, query: EventsQuery) -> tuple[Event, ...]:
    """Those that are asked for. Raises NoSuchResource, AmbiguousName."""
    store = view.store
    if store is None:
        return ()
    identity = resolve_with_past(query.resource, view) if query.resource else None
    found = store.events(view.cluster, resource=identity, limit=query.tail)
    return tuple(event for event in found if view.sees(event.resource))
