"""`bai volumes`: list, trash, restore, purge."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption, Yes

app = new_app(help="List volumes with what they hold; bring deleted ones back, or delete them for good.")

Entry = Annotated[
    str, typer.Argument(metavar="VOLUME", help="A deleted volume's name, or its entry in the trash.")
]


@app.callback(invoke_without_command=True)
def volumes(
    ctx: typer.Context,
    format: FormatOption = Format.text,
) -> None:
    """List volumes with what they hold; bring deleted ones back, or delete them for good."""
    if ctx.invoked_subcommand is not None:
        return
    from bai.cli.volumes.list import list_volumes

    settings = settings_of(ctx)
    with settings.workspace() as workspace:
        list_volumes(settings, workspace, as_json=format is Format.json)


@app.command()
def trash(
    ctx: typer.Context,
    format: FormatOption = Format.text,
) -> None:
    """List deleted volumes, whose folders wait in their storage hosts' trash."""
    from bai.cli.volumes.trash import list_trash

    settings = settings_of(ctx)
    with settings.workspace() as workspace:
        list_trash(settings, workspace, as_json=format is Format.json)


@app.command()
def restore(ctx: typer.Context, volume: Entry, yes: Yes = False) -> None:
    """Put a deleted volume's folder back where it was. Its document must be put back by hand."""
    from bai.cli.confirm import confirm
    from bai.cli.volumes.trash import find_deleted, storage_of

    with settings_of(ctx).workspace() as workspace:
        place, entry = find_deleted(workspace, volume)
        confirm(f"Put {entry.volume} back at {place.root}/{entry.path} on {place.node}?", yes=yes)
        storage_of(workspace).restore(place, entry.entry)
    typer.echo(f"{entry.volume} is back at {place.root}/{entry.path}.")


@app.command()
def purge(ctx: typer.Context, volume: Entry, yes: Yes = False) -> None:
    """Delete a deleted volume's folder for good."""
    from bai.cli.confirm import confirm
    from bai.cli.volumes.trash import find_deleted, storage_of

    with settings_of(ctx).workspace() as workspace:
        place, entry = find_deleted(workspace, volume)
        confirm(f"Delete all data of {entry.volume} ({entry.entry}) on {place.node} for good?", yes=yes)
        storage_of(workspace).purge(place, entry.entry)
    typer.echo(f"{entry.volume} is gone for good.")
