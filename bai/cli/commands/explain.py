"""`bai explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.formats import PlanFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import HowPlan, Offline
from bai.settings import settings_of

app = new_app()


@app.command()
def explain(
    ctx: typer.Context,
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="llama, vision/llama or Session/vision/llama.")
    ],
    format: HowPlan = PlanFormat.text,
    nodes: Annotated[
        int, typer.Option("--nodes", min=0, metavar="N", help="Nodes to show for one that waits.")
    ] = 8,
    offline: Offline = False,
) -> None:
    """Say why a session is where it is, or why it waits and what each of the nearest nodes lacks."""
    from bai.cli.inspect.explanation import explain_session
    from bai.cli.output import show_report
    from bai.render.analysis.explain import sections

    settings = settings_of(ctx)
    with settings.workspace() as workspace:
        found = explain_session(workspace, session, offline=offline)
    if format is PlanFormat.json:
        from bai.cli.output import print_json
        from bai.render.analysis.explain_json import as_json

        print_json("bai.explanation/v1", **as_json(found))
        return
    show_report(settings, sections(found, nodes), format)
