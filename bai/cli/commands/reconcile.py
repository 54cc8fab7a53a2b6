"""`bai reconcile`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.loops import loop_options as loops
from bai.cli.options import Parallel

app = new_app()


@app.command()
def reconcile(
    ctx: typer.Context,
    directory: loops.Directory = None,
    remote: loops.Remote = None,
    ref: loops.Ref = "",
    path: loops.PathInRemote = "",
    mode: loops.ModeOption = loops.Mode.auto,
    interval: loops.Interval = "30s",
    once: Annotated[
        bool, typer.Option("--once", help="One pass; exit with 1 when something could not be done.")
    ] = False,
    lease: loops.Lease = "15s",
    stuck_after: loops.StuckAfter = "15m",
    prometheus: loops.Prometheus = "",
    parallel: Parallel = 32,
    node_connections: loops.NodeConnections = 2048,
) -> None:
    """Keep clusters as their documents say: observe, plan and apply, again and again, without asking.

    All clusters of the repository, or the one that --cluster names. A remote is asked with BAI_GIT_USER and
    BAI_GIT_PASSWORD, or BAI_GIT_KEY and BAI_GIT_KNOWN_HOSTS, from the environment. Where a file says whose
    commits are followed (`bai --trust FILE`), others are not.
    """
    from bai.controller.loop_threads import run_loops

    loop_settings = loops.loop_settings(mode, interval, parallel, lease, stuck_after, prometheus)
    loops.keep_node_connections(node_connections)
    remote_repository = loops.remote_origin(remote, ref, path, mode)
    if not run_loops(
        loops.with_directory(settings_of(ctx), directory), remote_repository, loop_settings, once=once
    ):
        raise typer.Exit(1)
