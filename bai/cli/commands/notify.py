"""`bai notify`: list, test."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app(help="See who is told what happens, and try it.", no_args_is_help=True)


@app.command("list")
def list_(
    ctx: typer.Context,
    format: FormatOption = Format.text,
) -> None:
    """List notifications with what came of their last message, what waits and what was left out."""
    from bai.cli.inspect.notifications import list_notifications

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        list_notifications(settings, workspace, as_json=format is Format.json)


@app.command()
def test(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A Notification's name.")],
    show: Annotated[bool, typer.Option("--show", help="Print what would be sent, and send nothing.")] = False,
) -> None:
    """Send one message that says it is a test, now and from here, with the secrets that are known here."""
    from bai.cli.inspect.notifications import send_test

    with settings_of(ctx).workspace() as workspace:
        send_test(workspace, name, show=show)
