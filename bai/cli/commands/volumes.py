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
    from reconciler.values.volume_folders import volume_folders

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        folders, seen = volume_folders(workspace.desired()), workspace.volumes(usage=True) or {}
        list_volumes(settings, folders, seen, as_json=format is Format.json)


@app.command()
def trash(
    ctx: typer.Context,
    format: FormatOption = Format.text,
) -> None:
    """List deleted volumes, whose folders wait in their storage hosts' trash."""
    from bai.cli.volumes.trash import list_trash, require_storage

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        storage = require_storage(workspace.storage, workspace.cluster)
        list_trash(settings, workspace.desired(), storage, as_json=format is Format.json)


@app.command()
def restore(ctx: typer.Context, volume: Entry, yes: Yes = False) -> None:
    """Put a deleted volume's folder back where it was. Its document must be put back by hand."""
    from bai.cli.confirm import confirm
    from bai.cli.volumes.trash import find_deleted, require_storage

    with settings_of(ctx).workspace() as workspace:
        storage = require_storage(workspace.storage, workspace.cluster)
        place, entry = find_deleted(workspace.desired(), storage, volume)
        where = place.place_of(entry.path)
        confirm(f"Put {entry.volume} back at {where}?", yes=yes)
        storage.restore(place, entry.entry)
    typer.echo(f"{entry.volume} is back at {where}.")


@app.command()
def purge(ctx: typer.Context, volume: Entry, yes: Yes = False) -> None:
    """Delete a deleted volume's folder for good."""
    from bai.cli.confirm import confirm
    from bai.cli.volumes.trash import find_deleted, require_storage

    with settings_of(ctx).workspace() as workspace:
        storage = require_storage(workspace.storage, workspace.cluster)
        place, entry = find_deleted(workspace.desired(), storage, volume)
        where = place.place_of(entry.path)
        confirm(f"Delete all data of {entry.volume} ({entry.entry}), {where}, for good?", yes=yes)
        storage.purge(place, entry.entry)
    typer.echo(f"{entry.volume} is gone for good.")
