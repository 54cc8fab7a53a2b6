"""`bai get`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.formats import ListFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import HowList
from bai.settings import Settings, settings_of

if TYPE_CHECKING:
    from planner.model.types import Wait
    from reconciler.values.state import Actual, Desired
    from reconciler.workspace.workspace import Workspace
    from schemas.problems.errors import NoSuchResource

app = new_app()


@app.command()
def get(
    ctx: typer.Context,
    kind: Annotated[
        str, typer.Argument(metavar="[KIND]", help="sessions, nodes, ... or all, or one resource's name.")
    ] = "sessions",
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this one.")] = None,
    format: HowList = ListFormat.table,
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Only this project's.")] = None,
    usage: Annotated[bool, typer.Option("--usage", help="Of volumes: how much they hold.")] = False,
) -> None:
    """List resources with their phase, as they are now."""
    from bai.cli.kind_names import kind_of

    settings = settings_of(ctx)
    found = "" if kind.lower() == "all" else kind_of(kind)
    if found is None:
        if name is not None:
            raise _no_kind(kind)
        found, name = "Session", kind
    if usage:
        _usage(settings, found, name, project, as_json=format is ListFormat.json)
        return
    with settings.workspace() as workspace:
        desired, actual = workspace.desired(), workspace.actual()
        waits = _waits(workspace, actual) if found in ("Session", "") else {}
    if found == "Node":
        _nodes(settings, desired, actual, name, format)
        return
    only = _only(name, found, project, {*desired.digests, *actual.existing})
    if format is ListFormat.json:
        _json(desired, actual, found, only, waits)
        return
    if found in ("Session", ""):
        _sessions(settings, desired, actual, only, waits, wide=format is ListFormat.wide)
    if found != "Session":
        _others(settings, desired, actual, found, only)
    for error in actual.errors:
        typer.echo(f"warning: not everything could be observed: {error}", err=True)


def _no_kind(word: str) -> NoSuchResource:
    from bai.render.humanize import clean
    from schemas.kinds.registry import KINDS
    from schemas.problems.errors import NoSuchResource
    from schemas.problems.text import did_you_mean

    return NoSuchResource(what="kind", name=clean(word), hint=did_you_mean(word, KINDS))


def _usage(settings: Settings, kind: str, name: str | None, project: str | None, *, as_json: bool) -> None:
    from bai.cli.inspect.volume_list import list_volumes
    from schemas.problems.errors import CommandError

    if kind != "Volume":
        raise CommandError(why="--usage is for volumes", hint="bai get volumes --usage; bai top for sessions")
    with settings.workspace() as workspace:
        only = _only(name, kind, project, set(workspace.desired().digests))
        list_volumes(settings, workspace, as_json=as_json, only=only)


def _only(name: str | None, kind: str, project: str | None, identities: set[str]) -> set[str]:
    """The identities asked for."""
    from bai.cli.resource_names import resolve

    chosen = {resolve(name, identities, kind)} if name else identities
    if project:
        theirs = {identity.split("/")[1] for identity in identities if identity.count("/") == 2}
        if project not in theirs:
            resolve(project, identities, "Project")
        chosen = {identity for identity in chosen if identity.split("/")[1:-1] == [project]}
    return chosen


def _waits(workspace: Workspace, actual: Actual) -> dict[str, Wait]:
    """Why sessions wait, as a plan made now says; nothing is planned when none waits.

    A plan that is refused, for a guard say, is no reason to show nothing.
    """
    from schemas.problems.errors import PlanError

    if all(item.phase != "PENDING" for item in actual.existing.values()):
        return {}
    try:
        return {wait.session: wait for wait in workspace.plan().waits}
    except PlanError:
        return {}


def _sessions(
    settings: Settings,
    desired: Desired,
    actual: Actual,
    only: set[str],
    waits: dict[str, Wait],
    *,
    wide: bool,
) -> None:
    from bai.cli.output import table
    from bai.render.humanize import short
    from bai.render.resources.status import session_rows, wait_line

    rows = [row for row in session_rows(actual, desired.digests, time.time()) if row.id in only]
    columns = ["session", "phase", "ready", "node", "age"]
    cells = [[short(row.id), row.phase, row.ready, row.nodes, row.age] for row in rows]
    if wide:
        columns += ["generation", "group", "cores", "memory", "devices"]
        for line, row in zip(cells, rows, strict=True):
            line += [str(row.generation or ""), row.group, row.cores, row.memory, row.devices]
    columns.append("about")
    for line, row in zip(cells, rows, strict=True):
        line.append(row.about or wait_line(waits.get(row.id)))
    table(settings, columns, cells, empty="There is no Session.")


def _others(settings: Settings, desired: Desired, actual: Actual, kind: str, only: set[str]) -> None:
    from bai.cli.output import table
    from bai.render.resources.status import other_rows

    rows = [row for row in other_rows(actual, desired.digests, kind) if row[0] in only]
    table(settings, ["resource", "state", "generation"], rows, empty=f"There is no {kind or 'resource'}.")


def _json(desired: Desired, actual: Actual, kind: str, only: set[str], waits: dict[str, Wait]) -> None:
    from bai.cli.output import print_json
    from bai.render.resources.status import other_rows, session_json, session_rows

    items: list[dict[str, object]] = []
    if kind in ("Session", ""):
        for row in session_rows(actual, desired.digests, time.time()):
            if row.id in only:
                items.append(session_json(row, actual.existing.get(row.id), waits.get(row.id)))
    if kind != "Session":
        for name, state, generation in other_rows(actual, desired.digests, kind):
            if name in only:
                items.append(
                    {
                        "id": name,
                        "kind": name.partition("/")[0],
                        "applied": name in actual.existing,
                        "state": state,
                        "generation": int(generation or 0),
                    }
                )
    print_json("bai.resources/v1", complete=actual.complete, items=items)


def _nodes(
    settings: Settings, desired: Desired, actual: Actual, name: str | None, format: ListFormat
) -> None:
    from bai.cli.nodes.list import list_nodes

    list_nodes(settings, desired, actual, name, format)
