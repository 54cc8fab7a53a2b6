"""Events as `bai events` prints them, and those that are still to come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import Format

if TYPE_CHECKING:
    from bai.cli.sessions.kernel_events import KernelEventListener
    from reconciler.store.store import Store
    from reconciler.values.records import Event


POLL_SECONDS = 0.5


def follow_events(
    store: Store,
    cluster: str,
    identity: str | None,
    last: int,
    format: Format,
    listener: KernelEventListener | None,
) -> None:
    """Those after `last`, and what `listener` hears, until somebody interrupts."""
    try:
        while True:
            found = store.events(cluster, resource=identity, after=last)
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
