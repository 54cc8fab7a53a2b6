"""`bai cancel`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import Branch, Push

app = new_app()


@app.command()
def cancel(
    ctx: typer.Context,
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION...", autocompletion=complete_sessions)],
    branch: Branch = "",
    push: Push = True,
) -> None:
    """Take sessions out of git, by a commit of its own that is pushed; then they are stopped.

    A loop on the remote stops what runs; where nothing is pushed, `bai apply` does.

    \b
    bai cancel llama-sft                        like scancel
    bai cancel a b c --branch no-more           a pull request instead
    """
    from bai.cli.documents.change_sessions import cancel_sessions
    from bai.cli.documents.commit import CommitOptions

    cancel_sessions(settings_of(ctx), sessions, CommitOptions(branch, push))
