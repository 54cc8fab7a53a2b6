"""`bai context`: list, use."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app(help="List servers one is logged in to; choose one.", invoke_without_command=True)


@app.callback()
def context(ctx: typer.Context) -> None:
    """List servers one is logged in to, and choose which is asked; `bai context` alone lists them."""
    if ctx.invoked_subcommand is None:
        list_(ctx)


@app.command("list")
def list_(ctx: typer.Context, format: FormatOption = Format.text) -> None:
    """List contexts; the current one has a star."""
    import os

    from bai.cli.output import print_json, print_table
    from bai.cli.reading import ENVIRONMENT
    from bai.remote.contexts import load_contexts

    contexts = load_contexts()
    current = settings_of(ctx).context or os.environ.get(ENVIRONMENT) or contexts.current
    if format is Format.json:
        items = [
            {"name": name, "server": each.server, "cluster": each.cluster or "", "current": name == current}
            for name, each in contexts.contexts.items()
        ]
        print_json("bai.contexts/v1", items=items)
        return
    rows = [
        ["*" if name == current else "", name, each.server, each.cluster or "",
         each.oidc.issuer if each.oidc else "token"]
        for name, each in contexts.contexts.items()
    ]  # fmt: skip
    columns = ["current", "name", "server", "cluster", "login"]
    print_table(settings_of(ctx), columns, rows, empty="There is no context; `bai login URL` makes one.")


@app.command()
def use(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A context; `local`: the repository here.")],
) -> None:
    """Have commands ask this server from now on."""
    from bai.remote.contexts import load_contexts, locked_contexts, save_contexts
    from bai.settings import LOCAL_CONTEXT

    with locked_contexts():
        contexts = load_contexts()
        if name != LOCAL_CONTEXT:
            contexts.named(name)
        save_contexts(contexts.model_copy(update={"current": None if name == LOCAL_CONTEXT else name}))
    typer.echo(
        "The repository here is asked." if name == LOCAL_CONTEXT else f"Context {name} is asked from now on."
    )
