"""`bai history`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

if TYPE_CHECKING:
    pass

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

    settings = settings_of(ctx)
    with settings.reading_workspace() as workspace:
        entries = workspace.store.audit(workspace.cluster.name) if workspace.has_store else ()
        found = history_entries(entries)[:tail]
        git = workspace.source.git
    if format is Format.json:
        print_json("bai.history/v1", items=[history_json(each) for each in found])
        return
    if not found:
        typer.echo("Nothing was applied yet.", err=True)
    for each in found:
        typer.echo(history_line(each, _commit_subject(git, each.commit)))


def _commit_subject(git: object, commit: str) -> str:
    """The commit's first line, where it is known here."""
    from pathlib import Path

    from schemas.files.git_process import git_lines

    if not commit or not isinstance(git, Path):
        return ""
    found = git_lines(git, "show", "--no-patch", "--format=%s", commit, "--")
    return found[0] if found else ""
