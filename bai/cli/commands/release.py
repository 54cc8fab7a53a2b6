"""`bai release`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import Branch, Push

app = new_app()


@app.command()
def release(
    ctx: typer.Context,
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION...", autocompletion=complete_sessions)],
    branch: Branch = "",
    push: Push = True,
) -> None:
    """Let held sessions into their queue again.

    Takes `hold` out of their documents and pushes that. Time in the queue counts from then on.

    \b
    bai release llama-sft                       like scontrol release
    """
    from bai.cli.documents.change_sessions import release_sessions
    from bai.cli.documents.commit import CommitOptions

    release_sessions(settings_of(ctx), sessions, CommitOptions(branch, push))
