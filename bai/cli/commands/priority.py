"""`bai priority`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import Branch, Push

app = new_app()


@app.command()
def priority(
    ctx: typer.Context,
    session: Annotated[str, typer.Argument(metavar="SESSION", autocompletion=complete_sessions)],
    value: Annotated[int, typer.Argument(metavar="VALUE", min=0, max=1000, help="Higher goes first.")],
    branch: Branch = "",
    push: Push = True,
) -> None:
    """Set a session's priority in its document, by a commit that is pushed.

    \b
    bai priority llama-sft 50                   like scontrol update priority=50
    """
    from bai.cli.documents.change_sessions import set_priority
    from bai.cli.documents.commit import CommitOptions

    set_priority(settings_of(ctx), session, value, CommitOptions(branch, push))
