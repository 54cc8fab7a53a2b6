"""`bai explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import PlanFormat, form_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import Offline, PlanFormatOption

app = new_app()


@app.command()
def explain(
    ctx: typer.Context,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="llama or vision/llama; service/chat.")],
    format: PlanFormatOption = PlanFormat.text,
    nodes: Annotated[
        int, typer.Option("--nodes", min=0, metavar="N", help="Nodes to show for one that waits.")
    ] = 8,
    offline: Offline = False,
) -> None:
    """Say why a session is where it is, or why it waits and what each of the nearest nodes lacks; of a
    service, how far its rollout is and what it waits for."""
    from bai.cli.output import print_printout
    from bai.cli.reading import read
    from bai.queries.models import ExplainQuery

    settings = settings_of(ctx)
    query = ExplainQuery.of(session=session, nodes=nodes, form=form_of(format))
    found = read(settings, query, offline=offline)
    print_printout(settings, found, markdown=format is PlanFormat.markdown)
