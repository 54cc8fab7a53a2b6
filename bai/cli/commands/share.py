"""`bai share`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.completion import complete_apps, complete_whole_sessions
from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app()


@app.command()
def share(
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
    lifetime: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="TIME",
            help="How long the link opens it: 30m, 1h, 8h; the cluster's AppProxy says how long at most.",
        ),
    ] = "1h",
    format: FormatOption = Format.text,
) -> None:
    """Make a link that opens an app without a login, for a while.

    Whoever has the link may do in the app what its owner may. It is good for this start of the session,
    or until the service is removed, and stands in the audit. Needs a login at a server (`bai login`).

    \b
    bai share lab                          for an hour
    bai share lab tensorboard --for 8h     one of several apps, for a day's work
    """
    from bai.cli.options import parse_seconds
    from bai.cli.output import print_json
    from bai.cli.reading import remote_cluster
    from bai.cli.sessions.apps import find_app, make_link
    from schemas.problems.errors.command import CommandError

    settings, seconds = settings_of(ctx), int(parse_seconds(lifetime, "--for"))
    remote = remote_cluster(settings)
    if remote is None:
        hint = "`bai login URL` of the server with your apps, or --context NAME; `bai open` needs none"
        raise CommandError(why="links are made by a server", hint=hint)
    link = make_link(remote, find_app(settings, session, name), seconds)
    if format is Format.json:
        print_json("bai.link/v1", url=link.url, until=link.until)
        return
    typer.echo(link.url)
    typer.echo(f"opens {link.app} of {link.session} until {link.until}", err=True)
