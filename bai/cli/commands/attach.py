"""`bai attach`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from bai.cli.completion import sessions
from bai.cli.lazy_commands import new_app
from bai.settings import settings_of

app = new_app()
ONLY_OUTPUT = "this is its output, keys go nowhere. Ctrl-C leaves."


@app.command()
def attach(
    ctx: typer.Context,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION[/KERNEL]", help="main1 when no kernel is named.", autocompletion=sessions
        ),
    ],
) -> None:
    """Connect this terminal to a session's main process, until it ends or Ctrl-P Ctrl-Q is typed.

    The session goes on when you leave. Keys are taken by sessions with `tty: true`; of others the output is
    shown, and Ctrl-C leaves. The exit code is the process's, 0 when you leave.

    \b
    bai attach lab          a shell that was left running
    bai exec lab -- bash    a shell of your own beside it
    """
    from bai.cli.output import standard_input
    from bai.cli.sessions.find import find_kernel, what_runs
    from bai.cli.sessions.provider_abilities import attaches

    with settings_of(ctx).workspace() as workspace:
        provider = attaches(workspace)
        found, kernel = find_kernel(what_runs(workspace), session)
        sys.stdout.flush()
        try:
            explain(found.recorded.document, kernel.labels.kernel)
            code = provider.attach(kernel.id, stdin=standard_input())
        except KeyboardInterrupt:
            code = 0
    raise typer.Exit(code)


def explain(document: Mapping[str, object], kernel: str) -> None:
    """How to leave, before the screen changes hands."""
    if not _has_terminal(document):
        typer.echo(f"{kernel} has no terminal (`tty: true` gives one): {ONLY_OUTPUT}", err=True)
    elif sys.stdin is not None and sys.stdin.isatty():
        typer.echo("Ctrl-P Ctrl-Q leaves.", err=True)


def _has_terminal(document: Mapping[str, object]) -> bool:
    spec = document.get("spec")
    return isinstance(spec, Mapping) and bool(spec.get("tty"))
