"""`bai history`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app()


@app.command()
def history(
    ctx: typer.Context,
    tail: Annotated[int, typer.Option("--tail", "-n", min=1, metavar="COUNT", help="Only the last.")] = 30,
    format: FormatOption = Format.text,
) -> None:
    """Show what was applied, from which commits, by whom, and what loops were told. The newest comes first.

    `bai show DIGEST` has the whole plan, `bai audit` every single change.
    """
    from bai.cli.output import print_json
    from bai.render.resources.history import history_entries, history_json, history_line
    from reconciler.sources.commit_facts import CommitFacts, read_commit_facts

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        entries = workspace.store.audit(workspace.cluster.name) if workspace.has_store else ()
        found = history_entries(entries)[:tail]
        facts = read_commit_facts(workspace.source.git, (each.commit for each in found))
    unknown = CommitFacts()
    if format is Format.json:
        print_json(
            "bai.history/v1",
            items=[history_json(each, facts.get(each.commit, unknown).author) for each in found],
        )
        return
    if not found:
        typer.echo("Nothing was applied yet.", err=True)
    for each in found:
        author, subject = facts.get(each.commit, unknown)
        typer.echo(history_line(each, subject, author))
