"""`bai audit`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format, form_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app()


@app.command()
def audit(
    ctx: typer.Context,
    resource: Annotated[str | None, typer.Argument(metavar="[RESOURCE]", help="Only of this one.")] = None,
    actor: Annotated[str, typer.Option(metavar="NAME", help="Only by those whose name begins so.")] = "",
    commit: Annotated[str, typer.Option(metavar="COMMIT", help="Only from this commit; may be short.")] = "",
    plan: Annotated[str, typer.Option(metavar="DIGEST", help="Only by this plan; may be short.")] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="2026-01-31, 2026-01-31T12:00:00Z, or 36h: that long ago.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="The same: only what was before.")] = "",
    tail: Annotated[
        int, typer.Option("--tail", "-n", min=0, max=10_000, metavar="COUNT", help="Only the last.")
    ] = 100,
    changes: Annotated[bool, typer.Option("--changes", help="Show each field that changed.")] = False,
    format: FormatOption = Format.text,
) -> None:
    """Show who changed what, from which commit, by which plan. Nothing is ever removed from it.

    \b
    bai audit llama --changes          what became of one session's document and place
    bai audit --actor ada --since 7d   everything that somebody did in a week
    """
    import time

    from bai.cli.output import print_printout
    from bai.cli.reading import read
    from bai.queries.models import AuditQuery
    from bai.queries.names.moments import parse_time

    now, settings = time.time(), settings_of(ctx)
    query = AuditQuery.of(
        resource=resource or "", actor=actor, commit=commit, plan=plan,
        since=parse_time(since, now).timestamp() if since else None,
        until=parse_time(until, now).timestamp() if until else None,
        tail=tail, changes=changes, form=form_of(format),
    )  # fmt: skip
    print_printout(settings, read(settings, query))
