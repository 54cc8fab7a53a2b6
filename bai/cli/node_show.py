"""One node, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.cli.formats import Format
from bai.cli.settings import Settings

if TYPE_CHECKING:
    from rich.text import Text

    from bai.render.picture import NodePicture
    from planner.types import NodeInfo


def show_node(
    settings: Settings, name: str, *, svg: Path | None, nccl: Path | None, format: Format, offline: bool
) -> None:
    """Print a node of the cluster, or this machine for `.`; raises NoSuchResource, CommandError."""
    node, drawn = _this_machine() if name == "." else _node_of_cluster(settings, name, offline)
    if svg is not None:
        from bai.cli.files import write_whole
        from bai.render.svg import render

        write_whole(svg, render(drawn))
    if nccl is not None:
        _write_topology(node, nccl)
    if format is Format.json:
        _print_json(node, drawn)
        return
    _print_text(settings, node, drawn)
    if svg is not None:
        typer.echo(f"Drawn into {svg}.")
    if nccl is not None:
        typer.echo(f"NCCL topology written into {nccl}.")


def _write_topology(node: NodeInfo, file: Path) -> None:
    from bai.cli.files import write_whole
    from schemas.errors import CommandError
    from schemas.hardware.exporters.nccl import problem, topology

    why = problem(node.hardware)
    if why:
        hint = "`bai nodes probe` on the machine, or a capture by `lstopo`, tells it"
        raise CommandError(why=f"no NCCL topology of {node.name}: {why}", hint=hint)
    write_whole(file, topology(node.hardware))


def _this_machine() -> tuple[NodeInfo, NodePicture]:
    from bai.render.picture import picture
    from planner.types import NodeInfo
    from providers.probe import probe_local

    hardware = probe_local()
    node = NodeInfo(name=hardware.hostname or "this machine", hardware=hardware, group="")
    return node, picture(node)


def _node_of_cluster(settings: Settings, name: str, offline: bool) -> tuple[NodeInfo, NodePicture]:
    from bai.cli.cluster_view import node_infos
    from bai.cli.names import resolve
    from bai.render.node_view import running
    from bai.render.picture import picture
    from schemas.errors import CommandError

    with settings.workspace() as workspace:
        desired, actual = workspace.desired(), workspace.actual(offline=offline)
    names = [f"Node/{node.metadata.name}" for node in desired.repository.nodes_of(desired.cluster)]
    wanted = resolve(name, names, "Node").partition("/")[2]
    node = node_infos(desired, actual).get(wanted)
    if node is None:
        raise CommandError(
            why=f"what node {wanted} is has never been seen",
            hint="declare it with `hardware` or `hardwareFrom`, or let bai reach it",
        )
    return node, picture(node, running(actual))


def _print_text(settings: Settings, node: NodeInfo, drawn: NodePicture) -> None:
    from collections import Counter

    from rich.console import Group
    from rich.text import Text

    from bai.cli.output import look, show
    from bai.render.picture_text import draw, legend
    from bai.render.words import clean, plural

    glyphs = look().glyphs
    lines = [*draw(drawn, glyphs, most_cells=64), legend(glyphs), *_facts(node)]
    cores = Counter(cell.owner for row in drawn.rows for cell in row.cells if cell.owner)
    gpus = Counter(gpu.owner for row in drawn.rows for gpu in row.gpus if gpu.owner)
    for owner in sorted({*cores, *gpus}):
        held = f"{plural(cores[owner], 'core')}, {plural(gpus[owner], 'GPU')}"
        lines.append(Text(f"  {clean(owner)} holds {held}"))
    show(settings, Group(*lines))


def _facts(node: NodeInfo) -> list[Text]:
    from rich.text import Text

    from bai.render.words import clean, listed

    hardware = node.hardware
    lines: list[Text] = []
    for model in dict.fromkeys(gpu.model for gpu in hardware.gpus if gpu.model):
        lines.append(Text(f"  {sum(gpu.model == model for gpu in hardware.gpus)} x {clean(model)}"))
    lines += [Text(f"  gpu {g.index}: {clean(what)}", "red") for g in hardware.gpus for what in g.health]
    if hardware.nics:
        lines.append(Text(f"  network: {listed(clean(nic.id) for nic in hardware.nics)}"))
    if hardware.unknown:
        lines.append(Text(f"  unknown: {listed(map(clean, hardware.unknown))}", "dim"))
    return lines


def _print_json(node: NodeInfo, drawn: NodePicture) -> None:
    import dataclasses

    from bai.cli.output import print_json

    print_json(
        "bai.node/v1",
        name=node.name,
        group=node.group,
        state=node.state,
        hardware=node.hardware.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        use=[dataclasses.asdict(row) for row in drawn.rows],
    )
