"""`bai hold`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import Branch, Push

app = new_app()


@app.command()
def hold(
    ctx: typer.Context,
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION...", autocompletion=complete_sessions)],
    branch: Branch = "",
    push: Push = True,
) -> None:
    """Keep sessions that have not started out of their queue, until `bai release`.

    Writes `hold: true` into their documents and pushes that. A held session waits without a place in the
    queue, and nobody waits for it there. What runs already goes on.

    \b
    bai hold llama-sft                          like scontrol hold
    bai hold a b c --branch later               a pull request instead
    """
    from bai.cli.documents.change_sessions import hold_sessions
    from bai.cli.documents.commit import CommitOptions

    hold_sessions(settings_of(ctx), sessions, CommitOptions(branch, push))
