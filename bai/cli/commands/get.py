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
) -> None:
    """List resources with their phase, as they are now."""
    from bai.cli.inspect.resource_list import (
        chosen_identities,
        find_waits,
        list_volume_usage,
        print_resources,
        print_resources_json,
        print_sessions,
    )
    from bai.cli.kind_names import kind_of
    from bai.cli.nodes.list import list_nodes

    settings = settings_of(ctx)
    found = "" if kind.lower() == "all" else kind_of(kind)
    if found is None:
        if name is not None:
            raise _no_kind(kind)
        found, name = "Session", kind
    if usage:
        list_volume_usage(settings, found, name, project, as_json=format is ListFormat.json)
        return
    with settings.reading_workspace() as workspace:
        desired, actual = workspace.desired(), workspace.actual()
        waits = find_waits(workspace, actual) if found in ("Session", "") else {}
    if found == "Node":
        list_nodes(settings, desired, actual, name, format)
        return
    only = chosen_identities(name, found, project, {*desired.digests, *actual.existing})
    if format is ListFormat.json:
        print_resources_json(desired, actual, found, only, waits)
        return
    if found in ("Session", ""):
        print_sessions(settings, desired, actual, only, waits, wide=format is ListFormat.wide)
    if found != "Session":
        print_resources(settings, desired, actual, found, only)
    for error in actual.errors:
        typer.echo(f"warning: not everything could be observed: {error}", err=True)


def _no_kind(word: str) -> NoSuchResource:
    from bai.render.humanize import clean
    from schemas.kinds.kind_registry import KINDS
    from schemas.problems.errors.command import NoSuchResource
    from schemas.problems.text import did_you_mean

    return NoSuchResource(what="kind", name=clean(word), hint=did_you_mean(word, KINDS))
