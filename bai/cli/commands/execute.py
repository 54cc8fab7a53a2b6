"""`bai exec`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bai.cli.lazy import new_app
from bai.cli.settings import settings_of

app = new_app()


@app.command(
    "exec",
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
)
def execute(
    ctx: typer.Context,
    session: Annotated[
        str, typer.Argument(metavar="SESSION[/KERNEL]", help="main1 when no kernel is named.")
    ],
    program: Annotated[list[str], typer.Argument(metavar="-- PROGRAM [ARGS]...", help="What to run.")],
    tty: Annotated[
        bool | None, typer.Option("--tty/--no-tty", "-t/-T", help="Give it a terminal; default: as here.")
    ] = None,
) -> None:
    """Run a program inside a session's limits and view. The exit code is the program's."""
    from bai.cli.find import find_kernel

    argv = tuple(program[1:] if program[0] == "--" else program)
    terminal = sys.stdin.isatty() and sys.stdout.isatty() if tty is None else tty
    with settings_of(ctx).workspace() as workspace:
        _, kernel = find_kernel(workspace.actual(), session)
        sys.stdout.flush()
        code = workspace.provider.execute(kernel.id, argv, stdin=sys.stdin.buffer, tty=terminal)
    raise typer.Exit(code)
