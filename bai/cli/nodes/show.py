"""One node, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import Format
from bai.settings import Settings

if TYPE_CHECKING:
    from rich.text import Text

    from bai.render.nodes.picture import NodePicture
    from planner.model.types import NodeInfo
    from providers.health.values import Health
    from reconciler.plan.nodes.profile_status import Stands

    Found = tuple[NodeInfo, NodePicture, Health | None, Stands | None]


def show_node(
    settings: Settings, name: str, *, svg: Path | None, nccl: Path | None, format: Format, offline: bool
) -> None:
    """Print a node of the cluster, or this machine for `.`; raises NoSuchResource, CommandError."""
    node, drawn, health, how = _this_machine() if name == "." else _node_of_cluster(settings, name, offline)
    if svg is not None:
        from bai.cli.atomic_files import write_whole
        from bai.render.nodes.svg import render

        write_whole(svg, render(drawn))
    if nccl is not None:
        _write_topology(node, nccl)
    if format is Format.json:
        _print_json(node, drawn, health, how)
        return
    _print_text(settings, node, drawn, health, how)
    if svg is not None:
        typer.echo(f"Drawn into {svg}.")
    if nccl is not None:
        typer.echo(f"NCCL topology written into {nccl}.")


def _write_topology(node: NodeInfo, file: Path) -> None:
    from bai.cli.atomic_files import write_whole
    from schemas.hardware.exporters.nccl import problem, topology
    from schemas.problems.errors import CommandError

    why = problem(node.hardware)
    if why:
        hint = "`bai nodes probe` on the machine, or a capture by `lstopo`, tells it"
        raise CommandError(why=f"no NCCL topology of {node.name}: {why}", hint=hint)
    write_whole(file, topology(node.hardware))


def _this_machine() -> Found:
    from bai.render.nodes.picture import picture
    from planner.model.types import NodeInfo
    from providers.probe import probe_local

    hardware = probe_local()
    node = NodeInfo(name=hardware.hostname or "this machine", hardware=hardware, group="")
    return node, picture(node), None, None


def _node_of_cluster(settings: Settings, name: str, offline: bool) -> Found:
    from bai.cli.cluster_view import node_infos
    from bai.cli.resource_names import resolve
    from bai.render.nodes.picture import picture
    from bai.render.nodes.rows import running, stands_lines
    from reconciler.plan.nodes.profile_status import stands
    from schemas.problems.errors import CommandError

    with settings.workspace() as workspace:
        desired, actual = workspace.desired(), workspace.actual(offline=offline)
    names = [f"Node/{node.metadata.name}" for node in desired.repository.nodes_of(desired.cluster)]
    wanted = resolve(name, names, "Node").partition("/")[2]
    node, how = node_infos(desired, actual).get(wanted), stands(actual, wanted)
    if node is None:
        told = f" ({'; '.join(stands_lines(how))})" if how is not None else ""
        raise CommandError(
            why=f"what node {wanted} is has never been seen{told}",
            hint="declare it with `hardware` or `hardwareFrom`, or let bai reach it",
        )
    return node, picture(node, running(actual)), actual.health.get(wanted), how


def _print_text(
    settings: Settings, node: NodeInfo, drawn: NodePicture, health: Health | None, how: Stands | None
) -> None:
    from collections import Counter

    from rich.console import Group
    from rich.text import Text

    from bai.cli.output import look, show
    from bai.render.humanize import clean, plural
    from bai.render.nodes.picture_text import draw, legend
    from bai.render.nodes.rows import stands_lines

    glyphs = look().glyphs
    lines = [*draw(drawn, glyphs, most_cells=64), legend(glyphs), *_facts(node), *_findings(health)]
    lines += [Text(f"  {line}") for line in (stands_lines(how) if how is not None else ())]
    cores = Counter(cell.owner for row in drawn.rows for cell in row.cells if cell.owner)
    gpus = Counter(gpu.owner for row in drawn.rows for gpu in row.gpus if gpu.owner)
    for owner in sorted({*cores, *gpus}):
        held = f"{plural(cores[owner], 'core')}, {plural(gpus[owner], 'GPU')}"
        lines.append(Text(f"  {clean(owner)} holds {held}"))
    show(settings, Group(*lines))


def _facts(node: NodeInfo) -> list[Text]:
    from rich.text import Text

    from bai.render.humanize import clean, listed
    from planner.model.unfit_devices import sentences

    hardware = node.hardware
    lines: list[Text] = []
    for model in dict.fromkeys(gpu.model for gpu in hardware.gpus if gpu.model):
        lines.append(Text(f"  {sum(gpu.model == model for gpu in hardware.gpus)} x {clean(model)}"))
    lines += [Text(f"  {clean(sentence)}", "red") for sentence in sentences(node)]
    if hardware.nics:
        lines.append(Text(f"  network: {listed(clean(nic.id) for nic in hardware.nics)}"))
    if hardware.unknown:
        lines.append(Text(f"  unknown: {listed(map(clean, hardware.unknown))}", "dim"))
    return lines


def _findings(health: Health | None) -> list[Text]:
    """What was found beside GPUs that are out of placement."""
    from rich.text import Text

    from bai.render.nodes.health import sentence

    if health is None:
        return []
    said = set(health.unfit.values())
    kept = (one for one in health.findings if one.severity != "ok" and one.what not in said)
    return [Text(f"  {one.severity}: {sentence(health, one)}", "yellow") for one in kept]


def _print_json(node: NodeInfo, drawn: NodePicture, health: Health | None, how: Stands | None) -> None:
    import dataclasses

    from bai.cli.output import print_json
    from bai.render.nodes.health import as_json
    from bai.render.nodes.rows import stands_json

    print_json(
        "bai.node/v1",
        name=node.name,
        group=node.group,
        state=node.state,
        hardware=node.hardware.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        use=[dataclasses.asdict(row) for row in drawn.rows],
        profile=how.profile if how is not None else None,
        provisioning=stands_json(how) if how is not None else None,
        health=None if health is None else as_json(health),
    )
