"""`bai describe`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app()


@app.command()
def describe(
    ctx: typer.Context,
    resource: Annotated[
        str, typer.Argument(metavar="RESOURCE", help="llama, vision/llama or Session/vision/llama.")
    ],
    format: FormatOption = Format.text,
) -> None:
    """Show a resource: document, placement, what its kernels really have, and what happened to it."""
    from bai.cli.inspect.description import describe_resource
    from bai.cli.inspect.loop_status import tell_holds
    from schemas.values.resource_ref import ref_of

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        found = describe_resource(workspace, resource)
        if ref_of(found.id).kind == "Cluster":
            tell_holds(workspace.existing_store, workspace.cluster.name)
    if format is Format.json:
        from bai.cli.output import print_json
        from bai.render.resources.describe import description_json

        print_json("bai.description/v1", **description_json(found))
        return
    from bai.cli.output import print_renderable
    from bai.render.resources.describe import render_description

    print_renderable(settings, render_description(found), wrap=False)
