"""`bai status`."""

from __future__ import annotations

from functools import partial

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app()


@app.command()
def status(
    ctx: typer.Context,
    format: FormatOption = Format.text,
) -> None:
    """Show a cluster on one screen: what its loop does, how the last pass ended, who waits, what is free."""
    from bai.cli.inspect.cluster_status import read_cluster_status
    from bai.cli.output import print_json, print_lines
    from bai.render.resources.cluster_status import render_status, status_json, status_lines

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        found = read_cluster_status(workspace)
    if format is Format.json:
        print_json("bai.status/v1", **status_json(found))
        return
    print_lines(settings, status_lines(found), partial(render_status, found))
