"""A node as a small picture: what each core and GPU of each NUMA node is used for, as values to draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from schemas.values.once_per_value import once_per_value

if TYPE_CHECKING:
    from planner.model.types import KernelPlacement, NodeInfo, Placement
    from schemas.hardware.model import Gpu, Hardware, NumaNode

CellUse = Literal["free", "new", "busy", "reserved", "offline"]
"""`new`: taken by this plan; `busy`: before; `reserved`: kept from sessions; `offline`: off or unhealthy."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One physical core."""

    cpus: tuple[int, ...]
    use: CellUse
    owner: str = ""


@dataclass(frozen=True, slots=True)
class GpuCell:
    """One GPU: `milli` thousandths of it are taken."""

    index: int
    id: str
    use: CellUse
    owner: str = ""
    milli: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True)
class NumaRow:
    """One NUMA node with its cores and the GPUs nearest to it; memory in bytes."""

    id: int
    kind: str
    cells: tuple[Cell, ...]
    gpus: tuple[GpuCell, ...]
    memory: int


@dataclass(frozen=True, slots=True)
class NodePicture:
    """One machine. `unlocated_gpus`: NUMA node unknown. `shared_milli`: CPU handed out without pinning."""

    name: str
    group: str
    state: str
    rows: tuple[NumaRow, ...]
    unlocated_gpus: tuple[GpuCell, ...] = ()
    shared_milli: int = 0


@dataclass(frozen=True, slots=True)
class HeldPlacement:
    """A placement and whether the plan at hand makes it."""

    placement: Placement
    new: bool = True


def node_picture(node: NodeInfo, holdings: Iterable[HeldPlacement] = ()) -> NodePicture:
    """Draw `node` with what these placements take of it."""
    held = [
        (holding.placement.session, kernel, holding.new)
        for holding in holdings
        for kernel in holding.placement.kernels
        if kernel.node == node.name
    ]
    cores = _core_uses(node, held)
    gpus = [_gpu_cell(gpu, node, held) for gpu in sorted(node.hardware.gpus, key=lambda gpu: gpu.index)]
    homes = {gpu.index: gpu.numa_node for gpu in node.hardware.gpus}
    known = {numa.id for numa in node.hardware.numa_nodes}
    return NodePicture(
        name=node.name,
        group=node.group,
        state=node.state,
        rows=tuple(_numa_row(numa, node.hardware, cores, gpus, homes) for numa in node.hardware.numa_nodes),
        unlocated_gpus=tuple(cell for cell in gpus if homes[cell.index] not in known),
        shared_milli=sum(kernel.cpu_milli for _, kernel, _ in held if not kernel.cpus),
    )


def _core_uses(
    node: NodeInfo, held: list[tuple[str, KernelPlacement, bool]]
) -> dict[int, tuple[CellUse, str]]:
    """Use and owner of each logical CPU that is not free."""
    uses: dict[int, tuple[CellUse, str]] = {cpu: ("offline", "") for cpu in node.hardware.offline_cpus}
    uses |= {cpu: ("reserved", "") for cpu in node.reserved_cpus}
    for session, kernel, new in held:
        uses |= {cpu: ("new" if new else "busy", session) for cpu in kernel.cpus}
    return uses


def _numa_row(
    numa: NumaNode,
    hardware: Hardware,
    uses: Mapping[int, tuple[CellUse, str]],
    gpus: list[GpuCell],
    homes: Mapping[int, int | None],
) -> NumaRow:
    cells = tuple(_core_cell(core, uses) for core in cores_of(numa, hardware))
    mine = tuple(cell for cell in gpus if homes[cell.index] == numa.id)
    return NumaRow(id=numa.id, kind=numa.kind, cells=cells, gpus=mine, memory=numa.memory)


def cores_of(numa: NumaNode, hardware: Hardware) -> list[tuple[int, ...]]:
    """The physical cores of one NUMA node, each as its logical CPUs, by first CPU."""
    mine = set(numa.cpus)
    grouped = [tuple(cpu for cpu in core if cpu in mine) for core in hardware.siblings]
    cores = [core for core in grouped if core]
    lone = mine.difference(*cores) if cores else mine
    return sorted([*cores, *((cpu,) for cpu in lone)])


@once_per_value
def count_cores(hardware: Hardware) -> int:
    """The physical cores of a machine."""
    return sum(len(cores_of(numa, hardware)) for numa in hardware.numa_nodes)


def _core_cell(core: tuple[int, ...], uses: Mapping[int, tuple[CellUse, str]]) -> Cell:
    taken = [uses[cpu] for cpu in core if cpu in uses]
    use, owner = taken[0] if taken else ("free", "")
    return Cell(cpus=core, use=use, owner=owner)


def _gpu_cell(gpu: Gpu, node: NodeInfo, held: list[tuple[str, KernelPlacement, bool]]) -> GpuCell:
    names = {gpu.id, *(device.id for device in gpu.mig_devices)}
    grants = [
        (session, grant.milli, new)
        for session, kernel, new in held
        for grant in kernel.devices
        if grant.id in names
    ]
    use: CellUse = "free"
    if grants:
        use = "new" if any(new for _, _, new in grants) else "busy"
    elif gpu.id in node.unhealthy or not gpu.healthy:
        use = "offline"
    return GpuCell(
        index=gpu.index,
        id=gpu.id,
        use=use,
        owner=grants[0][0] if grants else "",
        milli=sum(milli for _, milli, _ in grants),
        model=gpu.model,
    )
