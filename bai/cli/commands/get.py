"""`bai get`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import ListFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import ListFormatOption

if TYPE_CHECKING:
    from schemas.problems.errors.command import NoSuchResource

app = new_app()


@app.command()
def get(
    ctx: typer.Context,
    kind: Annotated[
        str, typer.Argument(metavar="[KIND]", help="sessions, nodes, ... or all, or one resource's name.")
    ] = "sessions",
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this one.")] = None,
    format: ListFormatOption = ListFormat.table,
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Only this project's.")] = None,
    usage: Annotated[bool, typer.Option("--usage", help="Of volumes: how much they hold.")] = False,
    mine: Annotated[
        bool,
        typer.Option(
            "--mine",
            help="Sessions whose `owner` is me: git's user.email or user.name, or the Linux user, or the User"
            " document that one of these means.",
        ),
    ] = False,
    phase: Annotated[
        str, typer.Option("--phase", metavar="PHASE", help="Sessions in it, or in one of several: a,b.")
    ] = "",
    selector: Annotated[
        str,
        typer.Option(
            "--selector", "-l", metavar="TERMS", help="Sessions with labels: key=value,key!=value,key,!key."
        ),
    ] = "",
    sort: Annotated[
        str,
        typer.Option(
            "--sort",
            metavar="BY",
            help="Sessions by name, age (youngest first), phase, project, or gpus (most first).",
        ),
    ] = "",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Of sessions: then a line for each change, until Ctrl-C.")
    ] = False,
) -> None:
    """List resources with their phase, as they are now."""
    from bai.cli.inspect.resource_list import ResourceQuery, list_resources, list_volume_usage
    from bai.cli.inspect.session_choice import SessionChoice
    from bai.cli.kind_names import kind_of

    settings = settings_of(ctx)
    found = "" if kind.lower() == "all" else kind_of(kind)
    if found is None:
        if name is not None:
            raise _no_kind(kind)
        found, name = "Session", kind
    choice = SessionChoice(mine, phase, selector, sort)
    choice.check(found, watch=watch)
    if usage:
        list_volume_usage(settings, found, name, project, as_json=format is ListFormat.json)
        return
    with settings.reading_workspace() as workspace:
        list_resources(settings, workspace, ResourceQuery(found, name, project, choice), format, watch=watch)


def _no_kind(word: str) -> NoSuchResource:
    from bai.render.humanize import clean
    from schemas.kinds.kind_registry import KINDS
    from schemas.problems.errors.command import NoSuchResource
    from schemas.problems.text import did_you_mean

    return NoSuchResource(what="kind", name=clean(word), hint=did_you_mean(word, KINDS))
