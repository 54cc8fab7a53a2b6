"""Events that are still to come, as `bai events --follow` prints them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import Format

if TYPE_CHECKING:
    from bai.cli.sessions.kernel_events import KernelEventListener
    from bai.queries.models import EventsQuery
    from bai.remote.cluster import RemoteCluster
    from bai.settings import Settings
    from reconciler.store.store import Store
    from reconciler.values.records import Event
    from reconciler.workspace.workspace import Workspace

POLL_SECONDS = 0.5


def follow_events_here(settings: Settings, query: EventsQuery, *, live: bool) -> None:
    """The last ones, then what the store is told; `live`: what the provider tells of containers, too. Until
    somebody interrupts. Raises BaiError."""
    from bai.queries.events import read_events
    from bai.queries.names.resource_names import resolve_with_past
    from bai.queries.view import WorkspaceView

    format = Format.json if query.form == "json" else Format.text
    with settings.reading_workspace() as workspace, contextlib.suppress(KeyboardInterrupt):
        store, view = workspace.store, WorkspaceView.of(workspace)
        identity = resolve_with_past(query.resource, view) if query.resource else None
        # Read first: what is written from here on is found now, or followed.
        newest = store.events(workspace.cluster.name, limit=1)
        found = read_events(view, query)
        print_events(found, format)
        last = max((event.seq for event in (*newest, *found)), default=0)
        listener = _listener(workspace, identity) if live else None
        _follow(store, workspace.cluster.name, identity, last, format, listener)


def follow_events_there(remote: RemoteCluster, query: EventsQuery) -> None:
    """The same of a server. Raises ServerError."""
    from bai.queries.names.resource_names import is_named
    from bai.render.resources.events import parse_event

    format = Format.json if query.form == "json" else Format.text
    with contextlib.closing(remote.events()) as events, contextlib.suppress(KeyboardInterrupt):
        events.begin()
        listed = remote.read(query.model_copy(update={"form": "json"})).document.get("events", ())
        found = [parse_event(each) for each in listed]
        print_events(found, format)
        last = max((event.seq for event in found), default=0)
        for event in events:
            # What happened between the two questions is in both answers.
            if event.seq > last and (not query.resource or is_named(query.resource, event.resource)):
                print_events((event,), format)


def print_events(found: Iterable[Event], format: Format) -> None:
    from bai.render.resources.events import event_json, event_line

    for event in found:
        if format is Format.json:
            typer.echo(json.dumps({"version": "bai.event/v1", **event_json(event)}))
        else:
            typer.echo(event_line(event))


def _listener(workspace: Workspace, identity: str | None) -> KernelEventListener:
    from bai.cli.sessions.kernel_events import KernelEventListener
    from bai.cli.sessions.own_kernels import OwnKernels

    kernels = OwnKernels(workspace.provider, workspace.cluster, workspace.repo_id)
    return KernelEventListener(kernels, identity)


def _follow(
    store: Store,
    cluster: str,
    identity: str | None,
    last: int,
    format: Format,
    listener: KernelEventListener | None,
) -> None:
    try:
        while True:
            found = store.events(cluster, resource=identity, after=last)
            print_events(found, format)
            last = max((event.seq for event in found), default=last)
            for line in listener.lines(json=format is Format.json) if listener else ():
                typer.echo(line)
            time.sleep(POLL_SECONDS)
    finally:
        if listener:
            listener.stop()
