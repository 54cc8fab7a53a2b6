"""`bai events`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.settings import settings_of

if TYPE_CHECKING:
    from reconciler.values.records import Event
    from reconciler.workspace.workspace import Workspace

app = new_app()
POLL_SECONDS = 0.5


@app.command()
def events(
    ctx: typer.Context,
    resource: Annotated[str | None, typer.Argument(metavar="[RESOURCE]", help="Only of this one.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens next.")] = False,
    tail: Annotated[int, typer.Option("--tail", "-n", min=0, metavar="COUNT", help="Only the last.")] = 100,
    live: Annotated[
        bool, typer.Option("--live", help="With --follow: what the provider tells of containers, too.")
    ] = False,
    format: Annotated[
        Format, typer.Option("--format", help="JSON is one object, with --follow one object per line.")
    ] = Format.text,
) -> None:
    """Show transitions: when, what, why, and by whom.

    \b
    bai events llama          of one session
    bai events -f --live      the last, then what happens, to containers as well
    """
    if live and not follow:
        raise typer.BadParameter("--live goes with --follow", ctx=ctx)
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
        last = max((event.seq for event in newest), default=0)
        _follow(workspace, cluster, identity, last, format, live=live)


def _identity(workspace: Workspace, cluster: str, name: str | None) -> str | None:
    """The full identity of a resource that is recorded, wanted, or has events."""
    from bai.cli.resource_names import resolve

    if name is None:
        return None
    past = {event.resource for event in workspace.store.events(cluster)}
    return resolve(name, {*past, *workspace.store.recorded(cluster), *workspace.desired().digests})


def _follow(
    workspace: Workspace, cluster: str, identity: str | None, last: int, format: Format, *, live: bool
) -> None:
    from bai.cli.sessions.kernel_events import Told

    told = Told(workspace, identity) if live else None
    try:
        while True:
            found = workspace.store.events(cluster, resource=identity, after=last)
            _print(found, format)
            last = max((event.seq for event in found), default=last)
            for line in told.lines(json=format is Format.json) if told else ():
                typer.echo(line)
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return
    finally:
        if told:
            told.stop()


def _print_all(found: tuple[Event, ...], format: Format) -> None:
    if format is Format.text:
        _print(found, format)
        return
    from bai.cli.output import print_json
    from bai.render.resources.events import event_json

    print_json("bai.events/v1", events=[event_json(event) for event in found])


def _print(found: tuple[Event, ...], format: Format) -> None:
    import json

    from bai.render.resources.events import event_json, event_line

    for event in found:
        if format is Format.json:
            typer.echo(json.dumps({"version": "bai.event/v1", **event_json(event)}))
        else:
            typer.echo(event_line(event))
