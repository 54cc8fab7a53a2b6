"""`bai state`: list, backup, restore, move, rebuild, unlock, new-key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption, Yes

app = new_app(no_args_is_help=True, help="Look after the store.")


@app.command("list")
def list_(
    ctx: typer.Context,
    format: FormatOption = Format.text,
) -> None:
    """List what the store has recorded, the lease, and steps whose end is not known."""
    from bai.cli.inspect.state_list import list_state

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        list_state(settings, workspace, format)


@app.command()
def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes; never overwritten.")],
) -> None:
    """Copy the store, consistently, while others go on using it."""
    from schemas.problems.errors.command import AlreadyThere, CommandError

    if file.exists():
        raise AlreadyThere(path=file)
    with settings_of(ctx).reading_workspace() as workspace:
        if not workspace.has_store:
            raise CommandError(why=f"there is no store at {workspace.state}")
        file.parent.mkdir(parents=True, exist_ok=True)
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

    from bai.actor import current_actor
    from bai.cli.confirm import confirm
    from reconciler.store.store import Store
    from schemas.problems.errors.repository import CannotRead

    if not file.is_file():
        raise CannotRead(what=file, why="there is no such file")
    with settings_of(ctx).reading_workspace() as workspace:
        state, there = workspace.state, workspace.has_store
    if there:
        confirm(f"{state} will be replaced by {file}.", yes=yes)
    Store.restore(state, file, time.time(), actor=current_actor())
    typer.echo(f"Restored {state} from {file}.")


@app.command()
def move(
    ctx: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="STORE", help="Where to: postgresql://..., or a file that is not there.")
    ],
    yes: Yes = False,
) -> None:
    """Move everything to another store, which is used from then on: to a server, or back to a file."""
    import time

    from bai.actor import current_actor
    from bai.cli.confirm import confirm
    from bai.render.humanize import plural
    from reconciler.store.database.address import StoreAddress
    from reconciler.store.maintenance.move import move_store
    from schemas.problems.errors.command import CommandError

    with settings_of(ctx).reading_workspace() as workspace:
        source, there = workspace.state, workspace.has_store
    if not there:
        raise CommandError(why=f"there is no store at {source}")
    address = StoreAddress.parse(target, source.folder)
    confirm(f"Everything in {source} will be moved to {address}.", yes=yes)
    count = move_store(source, address, now=time.time(), actor=current_actor())
    typer.echo(f"Moved {plural(count, 'resource')} with history from {source} to {address}.")
    typer.echo(f"Say so to everybody, for --state or BAI_STATE. {source} is not used any more.")


@app.command()
def rebuild(ctx: typer.Context) -> None:
    """Fill a lost store again from the labels of what runs; one that is damaged is set aside first."""
    from bai.actor import current_actor
    from bai.render.humanize import clean, plural

    with settings_of(ctx).workspace() as workspace:
        found = workspace.rebuild(holder=current_actor(), log=lambda line: typer.echo(clean(line)))
    for identity in found:
        typer.echo(f"  {clean(identity)}")
    typer.echo(f"Recovered {plural(len(found), 'resource')} from what runs.")


@app.command()
def unlock(ctx: typer.Context, yes: Yes = False) -> None:
    """Break the lease of somebody who is gone for good; if not, his next write is refused."""
    import time

    from bai.actor import current_actor
    from bai.cli.confirm import confirm
    from bai.render.humanize import clean

    with settings_of(ctx).reading_workspace() as workspace:
        cluster = workspace.desired().cluster
        lease = workspace.store.lease(cluster) if workspace.has_store else None
        if lease is None:
            typer.echo(f"Nobody holds the lease on cluster {clean(cluster)}.")
            return
        confirm(f"{clean(lease.holder)} holds the lease on cluster {clean(cluster)}; break it?", yes=yes)
        workspace.store.unlock(cluster, actor=current_actor(), now=time.time())
    typer.echo(f"The lease of {clean(lease.holder)} is broken.")


@app.command("new-key")
def new_key(ctx: typer.Context, yes: Yes = False) -> None:
    """Forget which key the sessions' key pairs follow from, after the key itself was lost."""
    from bai.cli.confirm import confirm
    from reconciler.store.ownership import forget_session_key

    with settings_of(ctx).reading_workspace() as workspace:
        confirm(f"The next apply decides which key all who use {workspace.state} need.", yes=yes)
        forget_session_key(workspace.store)
    typer.echo("Forgotten. Sessions of several containers keep theirs until they start anew.")
