"""`bai logout`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.lazy_commands import new_app

app = new_app()


@app.command()
def logout(
    name: Annotated[str | None, typer.Argument(metavar="[CONTEXT]", help="Default: the current one.")] = None,
) -> None:
    """Forget a server, and the token that this machine has for it.

    A token of the server's access file is good until its line is taken out there.
    """
    from bai.remote.contexts import load_contexts, locked_contexts, save_contexts
    from schemas.problems.errors.command import CommandError

    with locked_contexts():
        contexts = load_contexts()
        chosen = name or contexts.current
        if chosen is None:
            raise CommandError(why="no context is current", hint="name one; `bai context` lists them")
        server = contexts.named(chosen).server
        save_contexts(contexts.without(chosen))
    typer.echo(f"Context {chosen} of {server} is forgotten.")
