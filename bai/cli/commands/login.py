"""`bai login`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app

app = new_app()


@app.command()
def login(
    ctx: typer.Context,
    server: Annotated[str, typer.Argument(metavar="URL", help="Of `bai serve`: https://bai.example.")],
    name: Annotated[
        str, typer.Option("--name", "-n", help="Of the context; default: the server's host name.")
    ] = "",
    token: Annotated[
        str,
        typer.Option(
            "--token",
            metavar="REFERENCE",
            help="In place of an identity provider: env:NAME, file:/path or -.",
        ),
    ] = "",
    ca: Annotated[
        Path | None,
        typer.Option("--ca", metavar="FILE", help="Certificates to believe in place of the system's."),
    ] = None,
    issuer: Annotated[
        str, typer.Option("--issuer", metavar="URL", help="Which identity provider, where there are several.")
    ] = "",
    issuer_ca: Annotated[
        Path | None, typer.Option("--issuer-ca", metavar="FILE", help="The same as --ca, of the provider.")
    ] = None,
) -> None:
    """Log in to a server. Reading commands and orders ask it from then on, without a repository or a store.

    Opens no browser: it shows an address and a code, for a browser anywhere. The login is kept in
    ~/.config/bai/contexts.yaml ($BAI_CONTEXTS), which only its owner may read, and renewed while it can be.

    \b
    bai login https://bai.example                        through the server's identity provider
    bai login https://bai.example --token file:token     with a token of the server's access file
    """
    from bai.cli.login.log_in import LoginRequest, log_in

    log_in(settings_of(ctx), LoginRequest(server, name, token, ca, issuer, issuer_ca))
