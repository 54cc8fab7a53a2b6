"""`bai attach`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app

app = new_app()


@app.command()
def attach(
    ctx: typer.Context,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION[/KERNEL]",
            help="main1 when no kernel is named.",
            autocompletion=complete_sessions,
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
    from bai.cli.sessions.attach_hint import print_attach_hint
    from bai.cli.sessions.find import find_kernel, observe_sessions
    from providers.required_abilities import require_attach

    with settings_of(ctx).kernel_access() as access:
        provider = require_attach(access.provider, access.cluster)
        found, kernel = find_kernel(observe_sessions(access), session)
        sys.stdout.flush()
        try:
            print_attach_hint(found.recorded.document, kernel.labels.kernel)
            code = provider.attach(kernel.id, stdin=standard_input())
        except KeyboardInterrupt:
            code = 0
    raise typer.Exit(code)
