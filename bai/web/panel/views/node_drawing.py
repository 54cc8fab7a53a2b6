"""The picture of a node for a page: each core and GPU with the sessions that hold it, as far as its viewer
may know them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, format_milli, plural, size
from bai.render.nodes.picture import HeldPlacement, node_picture
from schemas.hardware.cpuset import format_cpus
from schemas.values.once_per_value import once_per_value
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.render.nodes.picture import Cell, CellUse, GpuCell, NumaRow
    from planner.model.types import NodeInfo
    from schemas.hardware.model import Hardware

ANOTHER = "another project"
"""In place of what is not for the viewer to know."""
FULL = 10
"""The last step of a fill."""
_WORDS: Mapping[CellUse, str] = {"reserved": "reserved for the system", "offline": "offline", "free": "free"}


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds something: a session by project and name, both empty where it is another project's. `milli`:
    thousandths of a device; `own`: it is the session that the page is about."""

    project: str = ""
    name: str = ""
    milli: int = 0
    own: bool = False

    @property
    def text(self) -> str:
        """`vision/llama`."""
        return f"{clean(self.project)}/{clean(self.name)}" if self.name else ANOTHER


@dataclass(frozen=True, slots=True)
class DrawnCore:
    """One physical core; `holder` is None where no session has it alone."""

    use: CellUse
    title: str
    holder: Holder | None = None


@dataclass(frozen=True, slots=True)
class DrawnGpu:
    """One GPU: `milli` thousandths of it are taken, `fill` of ten steps."""

    use: CellUse
    title: str
    index: int
    milli: int
    fill: int
    holders: tuple[Holder, ...] = ()

    @property
    def own(self) -> bool:
        """Whether the page's session has some of it."""
        return any(each.own for each in self.holders)


@dataclass(frozen=True, slots=True)
class DrawnNuma:
    """One NUMA node, its cores and the GPUs nearest to it."""

    title: str
    cores: tuple[DrawnCore, ...]
    gpus: tuple[DrawnGpu, ...]


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One machine; `unlocated_gpus`: NUMA node unknown; `shared`: the CPU handed out without pinning, in
    words."""

    cluster: str
    name: str
    group: str
    state: str
    numa_nodes: tuple[DrawnNuma, ...]
    unlocated_gpus: tuple[DrawnGpu, ...] = ()
    shared: str = ""


def fill_step(used: int, total: int) -> int:
    """0 for nothing, 10 for all of it, else a step between them."""
    if used <= 0 or total <= 0:
        return 0
    return FULL if used >= total else min(FULL - 1, max(1, round(FULL * used / total)))


@once_per_value
def gpu_shares(hardware: Hardware) -> Mapping[str, tuple[str, int]]:
    """Device → the GPU that it is, or is an instance of, and thousandths of it."""
    found = {gpu.id: (gpu.id, 1000) for gpu in hardware.gpus}
    for gpu in hardware.gpus:
        found |= {part.id: (gpu.id, 1000 // len(gpu.mig_devices)) for part in gpu.mig_devices}
    return found


def holder_of(session: str, sees: Callable[[str], bool], milli: int = 0, own: str = "") -> Holder:
    """Who a session's identity means to who sees so much."""
    if not sees(session):
        return Holder(milli=milli)
    ref = ref_of(session)
    return Holder(ref.project, ref.name, milli, session == own)


def draw_node(
    cluster: str,
    node: NodeInfo,
    holdings: Sequence[HeldPlacement],
    sees: Callable[[str], bool],
    own: str = "",
) -> DrawnNode:
    """The node with what these placements take of it; `own`: the session that the page is about."""
    picture, gpus = node_picture(node, holdings), _gpu_holders(node, holdings, sees, own)
    gpus_of = {id_: tuple(holders.values()) for id_, holders in gpus.items()}

    def core(cell: Cell) -> DrawnCore:
        holder = holder_of(cell.owner, sees, own=own) if cell.owner else None
        said = holder.text if holder else _WORDS.get(cell.use, cell.use)
        many = "CPUs" if len(cell.cpus) > 1 else "CPU"
        return DrawnCore(cell.use, f"{many} {format_cpus(cell.cpus)}: {said}", holder)

    def gpu(cell: GpuCell) -> DrawnGpu:
        return _drawn_gpu(cell, gpus_of.get(cell.id, ()), node)

    def numa(row: NumaRow) -> DrawnNuma:
        return DrawnNuma(_numa_title(row), tuple(map(core, row.cells)), tuple(map(gpu, row.gpus)))

    shared = picture.shared_milli
    return DrawnNode(
        cluster=cluster,
        name=picture.name,
        group=picture.group,
        state=picture.state,
        numa_nodes=tuple(map(numa, picture.rows)),
        unlocated_gpus=tuple(map(gpu, picture.unlocated_gpus)),
        shared=f"{format_milli(shared)} shared CPU, on cores that nobody has alone" if shared else "",
    )


def _gpu_holders(
    node: NodeInfo, holdings: Iterable[HeldPlacement], sees: Callable[[str], bool], own: str
) -> Mapping[str, Mapping[str, Holder]]:
    """GPU → who holds how much of it; those whom the viewer may not know are one."""
    parts, found = gpu_shares(node.hardware), dict[str, dict[str, Holder]]()
    for holding in holdings:
        session = holding.placement.session
        for kernel in holding.placement.kernels:
            for grant in kernel.devices if kernel.node == node.name else ():
                if grant.id not in parts:
                    continue
                gpu, share = parts[grant.id]
                holders, key = found.setdefault(gpu, {}), session if sees(session) else ""
                before = holders[key].milli if key in holders else 0
                holders[key] = holder_of(session, sees, before + grant.milli * share // 1000, own)
    return found


def _drawn_gpu(cell: GpuCell, holders: tuple[Holder, ...], node: NodeInfo) -> DrawnGpu:
    milli = min(1000, sum(each.milli for each in holders))
    if holders:
        said = ", ".join(_holder_text(each) for each in holders)
    elif cell.use == "offline":
        why = clean(node.ailing.get(cell.id, ""))
        said = "takes no sessions" + (f": {why}" if why else "")
    else:
        said = _WORDS.get(cell.use, cell.use)
    name = " ".join(part for part in (f"GPU {cell.index}", clean(cell.model), clean(cell.id)) if part)
    return DrawnGpu(cell.use, f"{name}: {said}", cell.index, milli, fill_step(milli, 1000), holders)


def _holder_text(holder: Holder) -> str:
    return holder.text + (f" ({format_milli(holder.milli)})" if holder.milli < 1000 else "")


def _numa_title(row: NumaRow) -> str:
    kind = "" if row.kind == "dram" else f" ({row.kind})"
    parts = [f"NUMA node {row.id}{kind}"]
    parts += [plural(len(row.cells), "core")] if row.cells else []
    parts += [size(row.memory)] if row.memory else []
    return ", ".join(parts)
