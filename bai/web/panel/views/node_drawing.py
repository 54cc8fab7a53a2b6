"""The picture of a node for a page: each core, GPU and NIC with the sessions that hold it, as far as its
viewer may know them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import format_milli, plural, size
from bai.render.nodes.picture import HeldPlacement, node_picture
from bai.web.panel.views.device_drawing import WORDS, Devices, fabrics, holder_of
from schemas.hardware.cpuset import format_cpus

if TYPE_CHECKING:
    from bai.render.nodes.picture import Cell, CellUse, NumaRow
    from bai.web.panel.views.device_drawing import DrawnSwitch, Fabric, Holder
    from planner.model.types import NodeInfo


@dataclass(frozen=True, slots=True)
class DrawnCore:
    """One physical core; `holder` is None where no session has it alone."""

    use: CellUse
    title: str
    holder: Holder | None = None


@dataclass(frozen=True, slots=True)
class DrawnNuma:
    """One NUMA node, its cores and the devices nearest to it."""

    title: str
    cores: tuple[DrawnCore, ...]
    switches: tuple[DrawnSwitch, ...]


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One machine; `unlocated`: devices whose NUMA node is not known; `shared`: the CPU handed out without
    pinning, in words."""

    cluster: str
    name: str
    group: str
    state: str
    numa_nodes: tuple[DrawnNuma, ...]
    unlocated: tuple[DrawnSwitch, ...] = ()
    fabrics: tuple[Fabric, ...] = ()
    shared: str = ""


def draw_node(
    cluster: str,
    node: NodeInfo,
    holdings: Sequence[HeldPlacement],
    sees: Callable[[str], bool],
    own: str = "",
) -> DrawnNode:
    """The node with what these placements take of it; `own`: the session that the page is about."""
    picture, devices = node_picture(node, holdings), Devices(node, holdings, sees, own)
    homes = {numa.id for numa in node.hardware.numa_nodes}

    def core(cell: Cell) -> DrawnCore:
        holder = holder_of(cell.owner, sees, own=own) if cell.owner else None
        said = holder.text if holder else WORDS.get(cell.use, cell.use)
        many = "CPUs" if len(cell.cpus) > 1 else "CPU"
        return DrawnCore(cell.use, f"{many} {format_cpus(cell.cpus)}: {said}", holder)

    def numa(row: NumaRow) -> DrawnNuma:
        return DrawnNuma(_numa_title(row), tuple(map(core, row.cells)), devices.switches(row.gpus, [row.id]))

    shared = picture.shared_milli
    return DrawnNode(
        cluster=cluster,
        name=picture.name,
        group=picture.group,
        state=picture.state,
        numa_nodes=tuple(map(numa, picture.rows)),
        unlocated=devices.switches(
            picture.unlocated_gpus, {nic.numa_node for nic in node.hardware.nics} - homes
        ),
        fabrics=fabrics(node.hardware),
        shared=f"{format_milli(shared)} shared CPU, on cores that nobody has alone" if shared else "",
    )


def _numa_title(row: NumaRow) -> str:
    kind = "" if row.kind == "dram" else f" ({row.kind})"
    parts = [f"NUMA node {row.id}{kind}"]
    parts += [plural(len(row.cells), "core")] if row.cells else []
    parts += [size(row.memory)] if row.memory else []
    return ", ".join(parts)
