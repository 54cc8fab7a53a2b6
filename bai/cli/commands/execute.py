"""`bai exec`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app

app = new_app()


@app.command(
    "exec",
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
)
def execute(
    ctx: typer.Context,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION[/KERNEL]",
            help="main1 when no kernel is named.",
            autocompletion=complete_sessions,
        ),
    ],
    program: Annotated[list[str], typer.Argument(metavar="-- PROGRAM [ARGS]...", help="What to run.")],
    tty: Annotated[
        bool | None, typer.Option("--tty/--no-tty", "-t/-T", help="Give it a terminal; default: as here.")
    ] = None,
) -> None:
    """Run a program inside a session's limits and view. The exit code is the program's; 127 where there is
    none of that name, 126 where it may not be executed.

    \b
    bai exec lab -- bash                      a shell
    bai exec lab/sub1 -- nvidia-smi           in one container
    bai exec lab -- tar -c out | tar -x       input and output are this command's
    """
    from bai.cli.output import standard_input
    from bai.cli.sessions.find import find_kernel, observe_sessions

    argv = tuple(program[1:] if program[0] == "--" else program)
    here = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    terminal = here if tty is None else tty
    with settings_of(ctx).kernel_access() as access:
        _, kernel = find_kernel(observe_sessions(access), session)
        sys.stdout.flush()
        code = access.provider.execute(kernel.id, argv, stdin=standard_input(), tty=terminal)
    raise typer.Exit(code)
