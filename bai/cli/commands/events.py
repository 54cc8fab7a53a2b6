"""`bai events`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app

if TYPE_CHECKING:
    pass

app = new_app()


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
    from bai.cli.inspect.event_list import follow_events, print_all_events, print_events
    from bai.cli.resource_names import resolve_with_past

    if live and not follow:
        raise typer.BadParameter("--live goes with --follow", ctx=ctx)
    with settings_of(ctx).reading_workspace() as workspace:
        desired = workspace.desired()
        cluster = desired.cluster
        if not workspace.has_store and not follow:
            print_all_events((), format)
            return
        store = workspace.store
        identity = None
        if resource is not None:
            past = {event.resource for event in store.events(cluster)}
            identity = resolve_with_past(resource, past, desired, store)
        found = store.events(cluster, resource=identity, limit=tail)
        if not follow:
            print_all_events(found, format)
            return
        print_events(found, format)
        newest = found or store.events(cluster, limit=1)
        last = max((event.seq for event in newest), default=0)
        listener = None
        if live:
            from bai.cli.sessions.kernel_events import KernelEventListener
            from bai.cli.sessions.own_kernels import OwnKernels

            kernels = OwnKernels(workspace.provider, workspace.cluster, workspace.repo_id)
            listener = KernelEventListener(kernels, identity)
        follow_events(store, cluster, identity, last, format, listener)
