"""`bai open`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.completion import complete_apps, complete_whole_sessions
from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app

app = new_app()


@app.command("open")
def open_(
    ctx: typer.Context,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION", help="lab, vision/lab or service/web.", autocompletion=complete_whole_sessions
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(
            metavar="[APP]",
            help="The name of a port with protocol http, https or grpc; the only one when none is given.",
            autocompletion=complete_apps,
        ),
    ] = "",
    only_print: Annotated[
        bool, typer.Option("--print", "-p", help="Print the URL, and open nothing.")
    ] = False,
) -> None:
    """Open an app of a session or service in the browser: a notebook, an editor, a dashboard.

    The URL is printed as well; alone where there is no display, and where it is for gRPC or raw TCP
    (tcp://HOST:PORT). A page of a session that does not run yet waits for it.

    \b
    bai open lab                    its only app
    bai open lab tensorboard        one of several
    bai open --print lab jupyter    for a script
    """
    from bai.cli.sessions.apps import find_app, show_in_browser

    found = find_app(settings_of(ctx), session, name)
    typer.echo(found.url)
    has_page = found.protocol not in ("grpc", "tcp")
    if found.phase != "RUNNING":
        then = "the page waits until it runs" if has_page else "it answers when it runs"
        typer.echo(f"{found.session} is {found.phase}: {then}", err=True)
    if has_page and not only_print:
        show_in_browser(found.url)
