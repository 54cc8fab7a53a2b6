"""`bai cp`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.completion import complete_copy_paths
from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app

app = new_app()


@app.command("cp")
def copy(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC",
            help="A local path, SESSION[/KERNEL]:PATH, or - for a tar stream on standard input.",
            autocompletion=complete_copy_paths,
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="DST",
            help="The other side; - writes a tar stream to standard output.",
            autocompletion=complete_copy_paths,
        ),
    ],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not say what was copied.")] = False,
) -> None:
    """Copy files and folders into or out of a session.

    A folder that is there receives the source by its name; otherwise the target is the copy's name. `SRC/.`
    means what is in a folder. Paths in a session are as its main process sees them, relative ones begin in
    its working directory. Permissions are kept, owners are whoever unpacks.

    \b
    bai cp train.py lab:                  into the working directory
    bai cp vision/llama:/data/out ./out   a folder of the main container
    bai cp data/. lab/sub1:/scratch       the contents, into a folder of sub1
    bai cp lab:results - | gzip > r.tgz   as a tar stream
    """
    from bai.cli.sessions.transfer import transfer

    with settings_of(ctx).kernel_access() as access:
        done = transfer(access, source, target)
    for line in done.left_out:
        typer.echo(f"left out: {line}", err=True)
    if done.summary and not quiet:
        typer.echo(done.summary, err=True)
    if done.left_out:
        raise typer.Exit(1)
