"""`bai status`."""

from __future__ import annotations

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
    from bai.cli.output import print_json, print_line
    from bai.render.resources.cluster_status import status_json, status_lines

    with settings_of(ctx).reading_workspace() as workspace:
        found = read_cluster_status(workspace)
    if format is Format.json:
        print_json("bai.status/v1", **status_json(found))
        return
    for line in status_lines(found):
        print_line(line)
