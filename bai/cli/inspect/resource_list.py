"""Resources as `bai get` lists them: which ones, why sessions wait, and their rows or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import ListFormat
from bai.cli.inspect.session_choice import SessionChoice, session_document
from bai.render.humanize import clean
from bai.settings import Settings
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.render.resources.session_filter import SessionFilter
    from bai.render.resources.status import SessionRow
    from planner.model.types import Wait
    from reconciler.values.state import Actual, Desired
    from reconciler.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ResourceQuery:
    """Which resources are asked for. `kind` is empty for all."""

    kind: str
    name: str | None
    project: str | None
    choice: SessionChoice


def chosen_identities(name: str | None, kind: str, project: str | None, identities: set[str]) -> set[str]:
    """The identities asked for."""
    from bai.cli.resource_names import resolve_name

    chosen = {resolve_name(name, identities, kind)} if name else identities
    if project:
        theirs = {ref_of(identity).project for identity in identities} - {""}
        if project not in theirs:
            resolve_name(project, identities, "Project")
        chosen = {identity for identity in chosen if ref_of(identity).project == project}
    return chosen


def find_waits(workspace: Workspace, actual: Actual) -> dict[str, Wait]:
    """Why sessions wait, as a plan made now says; nothing is planned when none waits.

    A plan that is refused, for a guard say, is no reason to show nothing.
    """
    from schemas.problems.errors.plan import PlanError

    if all(item.phase != "PENDING" for item in actual.existing.values()):
        return {}
    try:
        return {wait.session: wait for wait in workspace.plan().waits}
    except PlanError:
        return {}


def list_resources(
    settings: Settings, workspace: Workspace, query: ResourceQuery, format: ListFormat, *, watch: bool
) -> None:
    """Print what is asked for, as it is now; with `watch`, then what becomes of it, until Ctrl-C."""
    from bai.cli.formats import Format
    from bai.cli.inspect.loop_status import tell_holds
    from bai.cli.inspect.session_watch import SessionWatch
    from bai.cli.nodes.list import list_nodes

    asked = query.choice.filter(workspace)
    # Before anything is looked at: what happens meanwhile is told after the table.
    watcher = SessionWatch(workspace.store, workspace.cluster.name, asked) if watch else None
    desired, actual = workspace.desired(), workspace.actual()
    tell_holds(workspace.existing_store, workspace.cluster.name)
    if query.kind == "Node":
        list_nodes(settings, desired, actual, query.name, format)
        return
    waits = find_waits(workspace, actual) if query.kind in ("Session", "") else {}
    only = chosen_identities(query.name, query.kind, query.project, {*desired.digests, *actual.existing})
    rows = _chosen_rows(desired, actual, query, asked, only)
    if format is ListFormat.json:
        print_resources_json(desired, actual, query.kind, only, waits, rows)
    else:
        if query.kind in ("Session", ""):
            print_sessions(settings, rows, waits, wide=format is ListFormat.wide)
        if query.kind != "Session":
            print_resources(settings, desired, actual, query.kind, only)
        for error in actual.errors:
            typer.echo(f"warning: not everything could be observed: {clean(error)}", err=True)
    if watcher is not None:
        watcher.project = query.project or ""
        watcher.only = next(iter(only)) if query.name else ""
        watcher.chosen = {
            each: asked.matches_document(session_document(desired, actual, each)) for each in only
        }
        sys.stdout.flush()
        watcher.follow(Format.json if format is ListFormat.json else Format.text)


def _chosen_rows(
    desired: Desired, actual: Actual, query: ResourceQuery, asked: SessionFilter, only: set[str]
) -> list[SessionRow]:
    from bai.render.resources.session_filter import choose_rows, sort_rows
    from bai.render.resources.status import session_rows

    rows = session_rows(actual, desired.digests, time.time())
    chosen = choose_rows(rows, asked, only, lambda identity: session_document(desired, actual, identity))
    return sort_rows(chosen, query.choice.sort)


def print_sessions(
    settings: Settings, rows: Sequence[SessionRow], waits: Mapping[str, Wait], *, wide: bool
) -> None:
    from bai.cli.output import print_table
    from bai.render.humanize import short_name
    from bai.render.resources.status import wait_line

    columns = ["session", "phase", "ready", "node", "age"]
    cells = [[short_name(row.id), row.phase, row.ready, row.nodes, row.age] for row in rows]
    if wide:
        columns += ["generation", "group", "cores", "memory", "devices"]
        for line, row in zip(cells, rows, strict=True):
            line += [str(row.generation or ""), row.group, row.cores, row.memory, row.devices]
    columns.append("about")
    for line, row in zip(cells, rows, strict=True):
        line.append(row.about or wait_line(waits.get(row.id)))
    print_table(settings, columns, cells, empty="There is no Session.")


def print_resources(settings: Settings, desired: Desired, actual: Actual, kind: str, only: set[str]) -> None:
    from bai.cli.output import print_table
    from bai.render.resources.status import resource_rows

    rows = [row for row in resource_rows(actual, desired.digests, kind) if row[0] in only]
    print_table(
        settings, ["resource", "state", "generation"], rows, empty=f"There is no {kind or 'resource'}."
    )


def print_resources_json(
    desired: Desired,
    actual: Actual,
    kind: str,
    only: set[str],
    waits: Mapping[str, Wait],
    rows: Sequence[SessionRow],
) -> None:
    """`rows`: of the sessions."""
    from bai.cli.output import print_json
    from bai.render.resources.status import resource_rows, session_json

    items: list[dict[str, object]] = []
    if kind in ("Session", ""):
        items += [session_json(row, actual.existing.get(row.id), waits.get(row.id)) for row in rows]
    if kind != "Session":
        for name, state, generation in resource_rows(actual, desired.digests, kind):
            if name in only:
                items.append(
                    {
                        "id": name,
                        "kind": ref_of(name).kind,
                        "applied": name in actual.existing,
                        "state": state,
                        "generation": int(generation or 0),
                    }
                )
    print_json("bai.resources/v1", complete=actual.complete, items=items)


def list_volume_usage(
    settings: Settings, kind: str, name: str | None, project: str | None, *, as_json: bool
) -> None:
    from bai.cli.volumes.list import list_volumes
    from reconciler.values.volume_folders import volume_folders
    from schemas.problems.errors.command import CommandError

    if kind != "Volume":
        raise CommandError(why="--usage is for volumes", hint="bai get volumes --usage; bai top for sessions")
    with settings.reading_workspace() as workspace:
        desired = workspace.desired()
        only = chosen_identities(name, kind, project, set(desired.digests))
        folders = {each: folder for each, folder in volume_folders(desired).items() if each in only}
        list_volumes(settings, folders, workspace.volumes(usage=True) or {}, as_json=as_json)
