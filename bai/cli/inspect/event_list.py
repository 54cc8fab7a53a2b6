"""Events as `bai events` prints them, and those that are still to come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import Format

if TYPE_CHECKING:
    from reconciler.values.records import Event
    from reconciler.workspace.workspace import Workspace


POLL_SECONDS = 0.5


def resolve_with_past(workspace: Workspace, cluster: str, name: str | None) -> str | None:
    """The full identity of a resource that is recorded, wanted, or has events."""
    from bai.cli.resource_names import resolve_name

    if name is None:
        return None
    past = {event.resource for event in workspace.store.events(cluster)}
    return resolve_name(name, {*past, *workspace.store.recorded(cluster), *workspace.desired().digests})


def follow_events(
    workspace: Workspace, cluster: str, identity: str | None, last: int, format: Format, *, live: bool
) -> None:
    from bai.cli.sessions.kernel_events import KernelEventListener

    listener = KernelEventListener(workspace, identity) if live else None
    try:
        while True:
            found = workspace.store.events(cluster, resource=identity, after=last)
            print_events(found, format)
            last = max((event.seq for event in found), default=last)
            for line in listener.lines(json=format is Format.json) if listener else ():
                typer.echo(line)
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return
    finally:
        if listener:
            listener.stop()


def print_all_events(found: tuple[Event, ...], format: Format) -> None:
    if format is Format.text:
        print_events(found, format)
        return
    from bai.cli.output import print_json
    from bai.render.resources.events import event_json

    print_json("bai.events/v1", events=[event_json(event) for event in found])


def print_events(found: tuple[Event, ...], format: Format) -> None:
    import json

    from bai.render.resources.events import event_json, event_line

    for event in found:
        if format is Format.json:
            typer.echo(json.dumps({"version": "bai.event/v1", **event_json(event)}))
        else:
            typer.echo(event_line(event))
