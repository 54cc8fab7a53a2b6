"""`bai events`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format, form_of
from bai.cli.lazy_commands import new_app

app = new_app()


@app.command()
def events(
    ctx: typer.Context,
    resource: Annotated[str | None, typer.Argument(metavar="[RESOURCE]", help="Only of this one.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens next.")] = False,
    tail: Annotated[
        int, typer.Option("--tail", "-n", min=0, max=10_000, metavar="COUNT", help="Only the last.")
    ] = 100,
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
    from bai.cli.output import print_printout
    from bai.cli.reading import read, refuse_for_server, remote_cluster
    from bai.queries.models import EventsQuery

    if live and not follow:
        raise typer.BadParameter("--live goes with --follow", ctx=ctx)
    settings = settings_of(ctx)
    query = EventsQuery.of(resource=resource or "", tail=tail, form=form_of(format))
    if not follow:
        print_printout(settings, read(settings, query))
        return
    from bai.cli.inspect.event_list import follow_events_here, follow_events_there

    remote = remote_cluster(settings)
    if remote is None:
        follow_events_here(settings, query, live=live)
        return
    refuse_for_server("--live", given=live)
    follow_events_there(remote, query)
