"""One node, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import Format
from bai.render.humanize import clean
from bai.settings import Settings
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from rich.text import Text

    from bai.render.nodes.picture import HeldPlacement, NodePicture
    from planner.model.types import NodeInfo
    from providers.health.values import NodeHealth
    from reconciler.plan.nodes.profile_status import ProfileStatus
    from reconciler.values.plan import Plan
    from reconciler.values.state import Actual

    Found = tuple[NodeInfo, NodePicture, NodeHealth | None, ProfileStatus | None]


def show_node(
    settings: Settings,
    name: str,
    *,
    svg: Path | None,
    nccl: Path | None,
    plan: Plan | None,
    format: Format,
    offline: bool,
) -> None:
    """Print a node of the cluster, or this machine for `.`; with `plan` as that plan leaves it. Raises
    NoSuchResource, CommandError."""
    found = _this_machine(plan) if name == "." else _node_of_cluster(settings, name, offline, plan)
    node, drawn, health, how = found
    if svg is not None:
        from bai.render.nodes.svg import render_node_svg
        from schemas.files.atomic_files import write_atomically

        write_atomically(svg, render_node_svg(drawn))
    if nccl is not None:
        _write_topology(node, nccl)
    if format is Format.json:
        _print_json(node, drawn, health, how)
        return
    if plan is not None:
        typer.echo(f"As plan {clean(plan.digest[:16])} leaves it:")
    _print_text(settings, node, drawn, health, how)
    if svg is not None:
        typer.echo(f"Drawn into {svg}.")
    if nccl is not None:
        typer.echo(f"NCCL topology written into {nccl}.")


def _write_topology(node: NodeInfo, file: Path) -> None:
    from schemas.files.atomic_files import write_atomically
    from schemas.hardware.exporters.nccl import export_nccl, export_problem
    from schemas.problems.errors.command import CommandError

    why = export_problem(node.hardware)
    if why:
        hint = "`bai nodes probe` on the machine, or a capture by `lstopo`, tells it"
        raise CommandError(why=f"no NCCL topology of {node.name}: {why}", hint=hint)
    write_atomically(file, export_nccl(node.hardware))


def _this_machine(plan: Plan | None) -> Found:
    from bai.render.nodes.picture import node_picture
    from planner.model.types import NodeInfo
    from providers.probe import probe_local
    from schemas.problems.errors.command import CommandError

    if plan is not None:
        raise CommandError(
            why="--plan is of a node of the cluster; `.` is this machine, whatever it is called"
        )
    hardware = probe_local()
    node = NodeInfo(name=hardware.hostname or "this machine", hardware=hardware, group="")
    return node, node_picture(node), None, None


def _node_of_cluster(settings: Settings, name: str, offline: bool, plan: Plan | None) -> Found:
    from bai.queries.facts.node_infos import node_infos
    from bai.queries.names.resource_names import resolve_name
    from bai.render.nodes.picture import node_picture
    from bai.render.nodes.rows import provision_lines
    from reconciler.plan.nodes.profile_status import profile_status
    from schemas.problems.errors.command import CommandError

    with settings.reading_workspace() as workspace:
        desired, actual = workspace.desired(), workspace.actual(offline=offline)
    names = [identity_of("Node", node.metadata.name) for node in desired.repository.nodes_of(desired.cluster)]
    wanted = ref_of(resolve_name(name, names, "Node")).name
    node, how = node_infos(desired, actual).get(wanted), profile_status(actual, wanted)
    if node is None:
        status = f" ({'; '.join(provision_lines(how))})" if how is not None else ""
        raise CommandError(
            why=f"what node {wanted} is has never been seen{status}",
            hint="declare it with `hardware` or `hardwareFrom`, or let bai reach it",
        )
    held = _holdings(actual, desired.cluster, plan)
    return node, node_picture(node, held), actual.health.get(wanted), how


def _holdings(actual: Actual, cluster: str, plan: Plan | None) -> list[HeldPlacement]:
    """What is taken now, or once a plan is carried out: what the plan does not speak of stays."""
    from bai.render.nodes.rows import running_placements
    from bai.render.plan.placements import held_placements
    from schemas.problems.errors.command import CommandError

    running = running_placements(actual)
    if plan is None:
        return running
    if plan.cluster != cluster:
        raise CommandError(why=f"the plan is of cluster {plan.cluster}, not of {cluster}")
    planned = {action.id for action in plan.actions}
    others = (one for one in running if one.placement.session not in planned)
    return [*held_placements(plan), *others]


def _print_text(
    settings: Settings,
    node: NodeInfo,
    drawn: NodePicture,
    health: NodeHealth | None,
    how: ProfileStatus | None,
) -> None:
    from collections import Counter

    from rich.console import Group
    from rich.text import Text

    from bai.cli.output import drawing_style, print_renderable
    from bai.render.humanize import plural
    from bai.render.nodes.picture_text import draw_node, legend
    from bai.render.nodes.rows import provision_lines

    glyphs = drawing_style().glyphs
    lines = [
        *draw_node(drawn, glyphs, most_cells=64),
        *legend(glyphs),
        *_hardware_lines(node),
        *_finding_lines(health),
    ]
    lines += [Text(f"  {line}") for line in (provision_lines(how) if how is not None else ())]
    cores = Counter(cell.owner for row in drawn.rows for cell in row.cells if cell.owner)
    gpus = Counter(gpu.owner for row in drawn.rows for gpu in row.gpus if gpu.owner)
    for owner in sorted({*cores, *gpus}):
        held = f"{plural(cores[owner], 'core')}, {plural(gpus[owner], 'GPU')}"
        lines.append(Text(f"  {clean(owner)} holds {held}"))
    print_renderable(settings, Group(*lines))


def _hardware_lines(node: NodeInfo) -> list[Text]:
    from rich.text import Text

    from bai.render.humanize import join_limited
    from planner.model.unhealthy_devices import unhealthy_sentences

    hardware = node.hardware
    lines: list[Text] = []
    for model in dict.fromkeys(gpu.model for gpu in hardware.gpus if gpu.model):
        lines.append(Text(f"  {sum(gpu.model == model for gpu in hardware.gpus)} x {clean(model)}"))
    lines += [Text(f"  {clean(sentence)}", "red") for sentence in unhealthy_sentences(node)]
    if hardware.nics:
        lines.append(Text(f"  network: {join_limited(clean(nic.id) for nic in hardware.nics)}"))
    if hardware.unknown:
        lines.append(Text(f"  unknown: {join_limited(map(clean, hardware.unknown))}", "dim"))
    return lines


def _finding_lines(health: NodeHealth | None) -> list[Text]:
    """What was found beside GPUs that are out of placement."""
    from rich.text import Text

    from bai.render.nodes.health import finding_sentence

    if health is None:
        return []
    unfit_reasons = set(health.unfit.values())
    others = (one for one in health.findings if one.severity != "ok" and one.what not in unfit_reasons)
    return [Text(f"  {one.severity}: {finding_sentence(health, one)}", "yellow") for one in others]


def _print_json(
    node: NodeInfo, drawn: NodePicture, health: NodeHealth | None, how: ProfileStatus | None
) -> None:
    import dataclasses

    from bai.cli.output import print_json
    from bai.render.nodes.health import health_json
    from bai.render.nodes.rows import provision_json

    print_json(
        "bai.node/v1",
        name=node.name,
        group=node.group,
        state=node.state,
        hardware=node.hardware.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        use=[dataclasses.asdict(row) for row in drawn.rows],
        profile=how.profile if how is not None else None,
        provisioning=provision_json(how) if how is not None else None,
        health=None if health is None else health_json(health),
    )
