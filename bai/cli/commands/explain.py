"""`bai explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import PlanFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import Offline, PlanFormatOption

app = new_app()


@app.command()
def explain(
    ctx: typer.Context,
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="llama, vision/llama or Session/vision/llama.")
    ],
    format: PlanFormatOption = PlanFormat.text,
    nodes: Annotated[
        int, typer.Option("--nodes", min=0, metavar="N", help="Nodes to show for one that waits.")
    ] = 8,
    offline: Offline = False,
) -> None:
    """Say why a session is where it is, or why it waits and what each of the nearest nodes lacks."""
    from bai.cli.inspect.explanation import explain_session
    from bai.cli.output import print_report
    from bai.render.analysis.explain import explanation_sections

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        found = explain_session(workspace, session, offline=offline)
    if format is PlanFormat.json:
        from bai.cli.output import print_json
        from bai.render.analysis.explain_json import explanation_json

        print_json("bai.explanation/v1", **explanation_json(found))
        return
    print_report(settings, explanation_sections(found, nodes), format)
