"""`bai logs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app

app = new_app()


@app.command()
def logs(
    ctx: typer.Context,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION[/KERNEL]",
            help="main1 when no kernel is named.",
            autocompletion=complete_sessions,
        ),
    ],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the kernel ends.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, metavar="LINES", help="Only the last.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only of the last 10m, 2h or 1d, or since 2026-01-31T12:00:00Z."),
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", "-a", help="Of all containers, each line with its container's name.")
    ] = False,
) -> None:
    """Print what a session's kernel wrote, byte for byte.

    \b
    bai logs -f llama                 until it ends, or Ctrl-C
    bai logs --all --since 10m llama  of all containers, the last ten minutes
    bai logs -n 100 llama/sub3        the last lines of one container
    """
    from bai.cli.sessions.find import find_kernel, find_kernels, observe_sessions
    from bai.cli.sessions.logs import LogRequest, read_logs

    if tail is not None and since is not None:
        raise typer.BadParameter("give --tail or --since, not both", ctx=ctx)
    with settings_of(ctx).reading_workspace() as workspace:
        wanted = LogRequest(follow, tail, since)
        read = partial(read_logs, workspace.provider, workspace.cluster)
        actual = observe_sessions(workspace)
        try:
            if all:
                from bai.cli.sessions.interleaved_output import print_interleaved

                kernels = find_kernels(actual, session)
                parts = {each.labels.kernel: read(each.id, wanted) for each in kernels}
                print_interleaved(parts, live=follow)
            else:
                _print(read(find_kernel(actual, session)[1].id, wanted))
        except KeyboardInterrupt:
            if not follow:
                raise


def _print(chunks: Iterator[bytes]) -> None:
    out = sys.stdout.buffer
    for chunk in chunks:
        out.write(chunk)
        out.flush()
