"""A plan on stdout or in a file, in the format asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import PlanFormat, PlanView
from bai.settings import Settings

if TYPE_CHECKING:
    from planner.model.types import NodeInfo
    from reconciler.values.plan import Plan
    from reconciler.workspace.workspace import Workspace

LARGEST_PLAN = 1 << 30
"""Bytes of a saved plan."""


def show_plan(
    settings: Settings,
    workspace: Workspace,
    plan: Plan,
    format: PlanFormat,
    offline: bool,
    view: PlanView | None = None,
) -> None:
    """Print `plan`; text and Markdown draw the nodes whose hardware is known."""
    drawn = format is not PlanFormat.json and any(each.placement_after for each in plan.changes)
    nodes = known_nodes(workspace, offline) if drawn else {}
    print_plan(settings, plan, nodes, format, view)


def print_plan(
    settings: Settings,
    plan: Plan,
    nodes: Mapping[str, NodeInfo],
    format: PlanFormat,
    view: PlanView | None = None,
) -> None:
    """The same, with the nodes that are to be drawn."""
    if format is PlanFormat.json:
        from bai.cli.output import write_document
        from reconciler.values.encoding.plan_json import dump_plan

        write_document(dump_plan(plan))
        return
    if format is PlanFormat.markdown:
        from bai.cli.output import write_document
        from bai.render.plan.markdown import render_plan_markdown as markdown

        write_document(markdown(plan, nodes))
        return
    from bai.cli.output import drawing_style
    from bai.cli.pager import print_paged
    from bai.render.plan.terminal import Fullness, render_plan

    view = view or PlanView(everything="`bai plan --details`")
    fullness = Fullness(view.details, view.everything)
    print_paged(settings, render_plan(plan, nodes, drawing_style(), fullness), pager=view.pager)


def known_nodes(workspace: Workspace, offline: bool) -> dict[str, NodeInfo]:
    """The nodes to draw. What cannot be learnt is not drawn: a picture is no reason to fail."""
    from bai.queries.facts.node_infos import node_infos
    from reconciler.observe.health import last_known_health
    from schemas.problems.errors.base import BaiError

    try:
        actual = replace(
            workspace.actual(offline=True),
            hardware=workspace.hardware(offline=offline),
            health=last_known_health(workspace.endpoints(), workspace.cluster),
        )
        return node_infos(workspace.desired(), actual)
    except BaiError:
        return {}


def save_plan(plan: Plan, path: Path) -> None:
    """Write the plan for `bai apply FILE`; readable by its owner alone: documents may be private."""
    from reconciler.values.encoding.plan_json import dump_plan
    from schemas.files.atomic_files import write_atomically

    write_atomically(path, dump_plan(plan), mode=0o600)


def read_plan(path: Path) -> Plan:
    """A saved plan. Raises CannotRead and PlanError."""
    from reconciler.values.encoding.plan_json import load_plan
    from schemas.files.regular_files import read_regular_file
    from schemas.problems.errors.repository import CannotRead

    try:
        text = read_regular_file(path, LARGEST_PLAN).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CannotRead(what=path, why=why.lower()) from None
    return load_plan(text)


def print_if_nothing_moves(plan: Plan) -> None:
    """A line when `--defragment` moves nothing."""
    from reconciler.values.changes.cause import CauseCode

    causes = (action.cause for action in plan.actions)
    if not any(cause and cause.code is CauseCode.DEFRAGMENTATION for cause in causes):
        typer.echo(
            "\n--defragment moves nothing: of the sessions with `movable: true`, none would join free room."
        )
