"""`bai state`: list, backup, restore, rebuild, unlock."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.formats import Format
from bai.cli.lazy import new_app
from bai.cli.options import Yes
from bai.cli.settings import settings_of

app = new_app(no_args_is_help=True, help="Look after the store.")


@app.command("list")
def list_(
    ctx: typer.Context,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.text,
) -> None:
    """List what the store has recorded, the lease, and steps whose end is not known."""
    from bai.cli.state_list import list_state

    settings = settings_of(ctx)
    with settings.workspace() as workspace:
        list_state(settings, workspace, format)


@app.command()
def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes; never overwritten.")],
) -> None:
    """Copy the store, consistently, while others go on using it."""
    from schemas.errors import AlreadyThere, CommandError

    if file.exists():
        raise AlreadyThere(path=file)
    with settings_of(ctx).workspace() as workspace:
        if not workspace.has_store:
            raise CommandError(why=f"there is no store at {workspace.state}")
        workspace.store.backup(file)
    typer.echo(f"Saved to {file}.")


@app.command()
def restore(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A copy made by `bai state backup`.")],
    yes: Yes = False,
) -> None:
    """Replace the store by a copy, after checking it. What really runs is found again at the next plan."""
    import time

    from bai.cli.confirm import confirm
    from reconciler.store import Store

    with settings_of(ctx).workspace() as workspace:
        path = workspace.state
    if path.exists():
        confirm(f"{path} will be replaced by {file}.", yes=yes)
    Store.restore(path, file, time.time())
    typer.echo(f"Restored {path} from {file}.")


@app.command()
def rebuild(ctx: typer.Context) -> None:
    """Fill a lost store again from the labels of what runs."""
    from bai.cli.holder import holder
    from bai.render.words import clean, plural

    with settings_of(ctx).workspace() as workspace:
        found = workspace.rebuild(holder=holder())
    for identity in found:
        typer.echo(f"  {clean(identity)}")
    typer.echo(f"Recovered {plural(len(found), 'resource')} from what runs.")


@app.command()
def unlock(ctx: typer.Context, yes: Yes = False) -> None:
    """Break the lease of somebody who is gone for good; if not, his next write is refused."""
    from bai.cli.confirm import confirm
    from bai.render.words import clean

    with settings_of(ctx).workspace() as workspace:
        cluster = workspace.desired().cluster
        lease = workspace.store.lease(cluster) if workspace.has_store else None
        if lease is None:
            typer.echo(f"Nobody holds the lease on cluster {clean(cluster)}.")
            return
        confirm(f"{clean(lease.holder)} holds the lease on cluster {clean(cluster)}; break it?", yes=yes)
        workspace.store.unlock(cluster)
    typer.echo(f"The lease of {clean(lease.holder)} is broken.")
