"""`bai history`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import How
from bai.settings import settings_of

if TYPE_CHECKING:
    from bai.render.resources.history import Moment

app = new_app()


@app.command()
def history(
    ctx: typer.Context,
    tail: Annotated[int, typer.Option("--tail", "-n", min=1, metavar="COUNT", help="Only the last.")] = 30,
    format: How = Format.text,
) -> None:
    """Show what was applied, from which commits, by whom, and what loops were told. The newest comes first.

    `bai show DIGEST` has the whole plan, `bai audit` every single change.
    """
    from bai.cli.output import print_json
    from bai.render.resources.history import moment_json, moments

    settings = settings_of(ctx)
    with settings.workspace() as workspace:
        entries = workspace.store.audit(workspace.cluster.name) if workspace.has_store else ()
        found = moments(entries)[:tail]
        git = workspace.source.git
    if format is Format.json:
        print_json("bai.history/v1", items=[moment_json(each) for each in found])
        return
    if not found:
        typer.echo("Nothing was applied yet.", err=True)
    for each in found:
        typer.echo(_line(each, _subject(git, each.commit)))


def _line(each: Moment, subject: str) -> str:
    from bai.render.humanize import clean, moment
    from bai.render.resources.history import words

    commit = each.commit[:12] or ("(files)" if each.verb == "apply" else "")
    about = f"  {clean(subject)}" if subject else ""
    plan = f"  plan {each.plan[:12]}" if each.plan else ""
    return f"{moment(each.at)}  {commit:12}  {words(each)}  by {clean(each.actor)}{plan}{about}"


def _subject(git: object, commit: str) -> str:
    """The commit's first line, where it is known here."""
    from pathlib import Path

    from reconciler.sources.git import said

    if not commit or not isinstance(git, Path):
        return ""
    found = said(git, "show", "--no-patch", "--format=%s", commit, "--")
    return found[0] if found else ""
