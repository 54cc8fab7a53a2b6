"""`bai events`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.formats import Format
from bai.cli.lazy import new_app
from bai.cli.settings import settings_of

if TYPE_CHECKING:
    from reconciler.records import Event
    from reconciler.workspace import Workspace

app = new_app()
POLL_SECONDS = 0.5


@app.command()
def events(
    ctx: typer.Context,
    resource: Annotated[str | None, typer.Argument(metavar="[RESOURCE]", help="Only of this one.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens next.")] = False,
    tail: Annotated[int, typer.Option("--tail", "-n", min=0, metavar="COUNT", help="Only the last.")] = 100,
    format: Annotated[
        Format, typer.Option("--format", help="JSON is one object, with --follow one object per line.")
    ] = Format.text,
) -> None:
    """Show transitions: when, what, why, and by whom."""
    with settings_of(ctx).workspace() as workspace:
        cluster = workspace.desired().cluster
        if not workspace.has_store and not follow:
            _print_all((), format)
            return
        identity = _identity(workspace, cluster, resource)
        found = workspace.store.events(cluster, resource=identity, limit=tail)
        if not follow:
            _print_all(found, format)
            return
        _print(found, format)
        newest = found or workspace.store.events(cluster, limit=1)
        _follow(workspace, cluster, identity, max((event.seq for event in newest), default=0), format)


def _identity(workspace: Workspace, cluster: str, name: str | None) -> str | None:
    """The full identity of a resource that is recorded, wanted, or has events."""
    from bai.cli.names import resolve

    if name is None:
        return None
    past = {event.resource for event in workspace.store.events(cluster)}
    return resolve(name, {*past, *workspace.store.recorded(cluster), *workspace.desired().digests})


def _follow(workspace: Workspace, cluster: str, identity: str | None, last: int, format: Format) -> None:
    try:
        while True:
            found = workspace.store.events(cluster, resource=identity, after=last)
            _print(found, format)
            last = max((event.seq for event in found), default=last)
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return


def _print_all(found: tuple[Event, ...], format: Format) -> None:
    if format is Format.text:
        _print(found, format)
        return
    from bai.cli.output import print_json

    print_json("bai.events/v1", events=[_plain(event) for event in found])


def _print(found: tuple[Event, ...], format: Format) -> None:
    import json

    for event in found:
        if format is Format.json:
            typer.echo(json.dumps({"version": "bai.event/v1", **_plain(event)}))
        else:
            typer.echo(line_of(event))


def line_of(event: Event) -> str:
    """One event in words."""
    from bai.render.words import clean, moment

    change = f"{event.before or '-'} -> {event.after or '-'}"
    by = f"  by {clean(event.actor)}" if event.actor else ""
    at = f" at {clean(event.commit[:12])}" if event.commit else ""
    cause = f"  {clean(event.cause)}" if event.cause else ""
    return f"{moment(event.at)}  {clean(event.resource)}  {change}{cause}{by}{at}"


def _plain(event: Event) -> dict[str, object]:
    from bai.render.words import moment

    return {
        "seq": event.seq,
        "at": moment(event.at),
        "resource": event.resource,
        "before": event.before,
        "after": event.after,
        "cause": event.cause,
        "actor": event.actor,
        "commit": event.commit,
    }
