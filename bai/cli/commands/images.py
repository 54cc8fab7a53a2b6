"""`bai images`: list, scan, show, verify, pull, registries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption, FormatOptionWithShort

app = new_app(help="List images, ask registries about them, and bring them to nodes.")

Name = Annotated[str, typer.Argument(metavar="IMAGE", help="An Image's name, or a reference.")]


@app.callback(invoke_without_command=True)
def images(ctx: typer.Context, format: FormatOption = Format.text) -> None:
    """List images, ask registries about them, and bring them to nodes; `bai images` alone lists them."""
    if ctx.invoked_subcommand is not None:
        return
    from bai.cli.images.list import list_images

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        list_images(settings, workspace.desired(), workspace.existing_store, as_json=format is Format.json)


@app.command()
def scan(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[IMAGE]...", help="Only these; all of them when left out.")
    ] = None,
) -> None:
    """Ask the registries for digests, sizes, architectures and labels, and remember them for plans."""
    from bai.cli.images.scan import scan_images

    with settings_of(ctx).workspace() as workspace:
        sound = scan_images(workspace, tuple(names or ()))
    if not sound:
        raise typer.Exit(1)


@app.command()
def show(
    ctx: typer.Context,
    name: Name,
    format: FormatOption = Format.text,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the nodes who has it.")] = False,
) -> None:
    """Show all that is known of an image, and which nodes have it."""
    from bai.cli.images.list import show_image

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        show_image(workspace, name, as_json=format is Format.json, offline=offline)


@app.command()
def verify(
    ctx: typer.Context,
    name: Name,
    keys: Annotated[
        list[Path],
        typer.Option("--key", metavar="FILE", help="A public key in PEM; may be repeated."),
    ],
    format: FormatOptionWithShort = Format.text,
) -> None:
    """Ask the image's registry who has signed it, as `cosign sign --key` does; exit code 1 where that is none
    of the keys."""
    from bai.cli.images.verify import verify_image

    with settings_of(ctx).reading_workspace() as workspace:
        signed = verify_image(
            workspace.repository,
            workspace.secrets.for_infrastructure,
            name,
            tuple(keys),
            as_json=format is Format.json,
        )
    if not signed:
        raise typer.Exit(1)


@app.command()
def pull(
    ctx: typer.Context,
    name: Name,
    nodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NODE]...", help="Where to; where its document says when left out."),
    ] = None,
) -> None:
    """Bring an image to nodes now."""
    from bai.cli.images.pull import pull_image

    with settings_of(ctx).workspace() as workspace:
        sound = pull_image(workspace, name, tuple(nodes or ()))
    if not sound:
        raise typer.Exit(1)


@app.command()
def registries(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[REGISTRY]", help="List what this one holds.")
    ] = None,
) -> None:
    """Check that the registries answer and let us in, or list what one of them holds."""
    from bai.cli.images.registries import check_registries, list_registry

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        repository, secret = workspace.repository, workspace.secrets.for_infrastructure
        if name is not None:
            list_registry(settings, repository, secret, name)
            return
        sound = check_registries(settings, repository, secret)
    if not sound:
        raise typer.Exit(1)
