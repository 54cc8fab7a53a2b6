"""The GPUs and NICs of a node's picture: with who holds them, as far as the viewer may know, below which PCIe
switch they are, and which GPUs are linked directly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, format_milli, join_limited, plural
from planner.model.links import direct_links, pcie_switches
from schemas.hardware.cpuset import format_cpus
from schemas.values.once_per_value import once_per_value
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.render.nodes.picture import CellUse, GpuCell, HeldPlacement
    from planner.model.links import DirectLinks
    from planner.model.types import KernelPlacement, NodeInfo
    from schemas.hardware.model import Hardware, MigDevice, Nic

ANOTHER = "another project"
"""In place of what is not for the viewer to know."""
FULL = 10
"""The last step of a fill."""
WORDS: Mapping[CellUse, str] = {"reserved": "reserved for the system", "offline": "offline", "free": "free"}
_FABRICS = {"NV": "NVLink", "XGMI": "xGMI"}
_PAIRS = 16
"""So many pairs of one fabric are named."""


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
class DrawnInstance:
    """One MIG instance: `slices` of its GPU's memory slices, 1 to 8."""

    use: CellUse
    title: str
    slices: int
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
    instances: tuple[DrawnInstance, ...] = ()

    @property
    def own(self) -> bool:
        """Whether the page's session has some of it."""
        return any(each.own for each in self.holders)


@dataclass(frozen=True, slots=True)
class DrawnNic:
    """One NIC, which several sessions may use."""

    use: CellUse
    title: str
    name: str
    holders: tuple[Holder, ...] = ()

    @property
    def own(self) -> bool:
        """Whether the page's session uses it."""
        return any(each.own for each in self.holders)


@dataclass(frozen=True, slots=True)
class DrawnSwitch:
    """What is below one PCIe switch; a device that shares none is alone."""

    gpus: tuple[DrawnGpu, ...] = ()
    nics: tuple[DrawnNic, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether there is more than one device."""
        return len(self.gpus) + len(self.nics) > 1


@dataclass(frozen=True, slots=True)
class Fabric:
    """What connects GPUs directly: `NVLink`, and how, in words."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Grant:
    """Of one device: who, how many thousandths, and whether by the plan at hand."""

    session: str
    milli: int
    new: bool


class Devices:
    """The devices of one node with what these placements take of them. `own`: the session that the page is
    about."""

    def __init__(
        self, node: NodeInfo, holdings: Iterable[HeldPlacement], sees: Callable[[str], bool], own: str
    ) -> None:
        self._node, self._sees, self._own = node, sees, own
        self._grants = _grants(node.name, holdings)

    def switches(self, cells: Sequence[GpuCell], numa_nodes: Iterable[int | None]) -> tuple[DrawnSwitch, ...]:
        """These GPUs, and the NICs of these NUMA nodes, by the PCIe switch that they are below."""
        wanted, hardware = set(numa_nodes), self._node.hardware
        gpus = {cell.id: cell for cell in cells}
        nics = {nic.id: nic for nic in hardware.nics if nic.numa_node in wanted}
        found = (
            DrawnSwitch(
                tuple(self._gpu(gpus[id_]) for id_ in switch if id_ in gpus),
                tuple(self._nic(nics[id_]) for id_ in switch if id_ in nics),
            )
            for switch in pcie_switches(hardware)
        )
        return tuple(switch for switch in found if switch.gpus or switch.nics)

    def _gpu(self, cell: GpuCell) -> DrawnGpu:
        parts = {cell.id: 1000, **_instance_shares(self._node.hardware).get(cell.id, {})}
        holders = self._holders(
            (grant.session, grant.milli * share // 1000)
            for id_, share in parts.items()
            for grant in self._grants.get(id_, ())
        )
        milli = min(1000, sum(each.milli for each in holders))
        said = ", ".join(map(_holder_text, holders)) or self._unused(cell.id, cell.use)
        name = " ".join(part for part in (f"GPU {cell.index}", clean(cell.model), clean(cell.id)) if part)
        return DrawnGpu(
            use=cell.use,
            title=f"{name}: {said}",
            index=cell.index,
            milli=milli,
            fill=fill_step(milli, 1000),
            holders=holders,
            instances=tuple(map(self._instance, _instances(self._node.hardware).get(cell.id, ()))),
        )

    def _instance(self, instance: MigDevice) -> DrawnInstance:
        holders = self._holders((grant.session, 0) for grant in self._grants.get(instance.id, ()))
        use = self._use(instance.id)
        said = ", ".join(holder.text for holder in holders) or self._unused(instance.id, use)
        slices = min(8, instance.size or 1)
        title = f"{clean(instance.profile)}: {said}"
        return DrawnInstance(use, title, slices, holders[0] if len(holders) == 1 else None)

    def _nic(self, nic: Nic) -> DrawnNic:
        holders = self._holders((grant.session, 0) for grant in self._grants.get(nic.id, ()))
        use, speed = self._use(nic.id), f"{nic.speed_mbps // 1000} Gbit/s" if nic.speed_mbps else ""
        said = ", ".join(holder.text for holder in holders) or self._unused(nic.id, use)
        name = " ".join(part for part in (clean(nic.id), nic.link_layer or "", speed) if part)
        return DrawnNic(use, f"{name}: {said}", clean(nic.id), holders)

    def _holders(self, grants: Iterable[tuple[str, int]]) -> tuple[Holder, ...]:
        """Those whom the viewer may not know are one."""
        found: dict[str, Holder] = {}
        for session, milli in grants:
            key = session if self._sees(session) else ""
            before = found[key].milli if key in found else 0
            found[key] = holder_of(session, self._sees, before + milli, self._own)
        return tuple(found.values())

    def _use(self, device: str) -> CellUse:
        grants = self._grants.get(device, ())
        if grants:
            return "new" if any(grant.new for grant in grants) else "busy"
        return "offline" if device in self._node.unhealthy else "free"

    def _unused(self, device: str, use: CellUse) -> str:
        if use != "offline":
            return WORDS.get(use, use)
        why = clean(self._node.ailing.get(device, ""))
        return "takes no sessions" + (f": {why}" if why else "")


def fabrics(hardware: Hardware) -> tuple[Fabric, ...]:
    """`NVLink`: `GPU 0-7, each with each by 18 links, 4 NVSwitches`."""
    index = {gpu.id: gpu.index for gpu in hardware.gpus}
    switches = plural(hardware.nv_switches, "NVSwitch", "NVSwitches") if hardware.nv_switches else ""
    return tuple(
        Fabric(_FABRICS.get(links.kind, links.kind), ", ".join(filter(None, (text, switches))))
        for links in direct_links(hardware)
        for text in [_links_text(links, index)]
    )


def fill_step(used: int, total: int) -> int:
    """0 for nothing, 10 for all of it, else a step between them."""
    if used <= 0 or total <= 0:
        return 0
    return FULL if used >= total else min(FULL - 1, max(1, round(FULL * used / total)))


@once_per_value
def gpu_shares(hardware: Hardware) -> Mapping[str, tuple[str, int]]:
    """Device → the GPU that it is, or is an instance of, and thousandths of it."""
    found = {gpu.id: (gpu.id, 1000) for gpu in hardware.gpus}
    for gpu, parts in _instance_shares(hardware).items():
        found |= {part: (gpu, share) for part, share in parts.items()}
    return found


def holder_of(session: str, sees: Callable[[str], bool], milli: int = 0, own: str = "") -> Holder:
    """Who a session's identity means to who sees so much."""
    if not sees(session):
        return Holder(milli=milli)
    ref = ref_of(session)
    return Holder(ref.project, ref.name, milli, session == own)


@once_per_value
def _instance_shares(hardware: Hardware) -> Mapping[str, Mapping[str, int]]:
    return {
        gpu: {part.id: 1000 // len(parts) for part in parts} for gpu, parts in _instances(hardware).items()
    }


@once_per_value
def _instances(hardware: Hardware) -> Mapping[str, tuple[MigDevice, ...]]:
    return {gpu.id: gpu.mig_devices for gpu in hardware.gpus if gpu.mig_devices}


def _grants(node: str, holdings: Iterable[HeldPlacement]) -> Mapping[str, list[Grant]]:
    """By the id of a GPU, a MIG instance or a NIC."""
    found: dict[str, list[Grant]] = {}
    for holding in holdings:
        for kernel in holding.placement.kernels:
            for device, milli in _taken(kernel) if kernel.node == node else ():
                grant = Grant(holding.placement.session, milli, holding.new)
                found.setdefault(device, []).append(grant)
    return found


def _taken(kernel: KernelPlacement) -> Iterator[tuple[str, int]]:
    granted = {grant.id: grant.milli for grant in kernel.devices}
    yield from granted.items()
    yield from ((nic, 1000) for nic in kernel.nics if nic not in granted)


def _holder_text(holder: Holder) -> str:
    return holder.text + (f" ({format_milli(holder.milli)})" if holder.milli < 1000 else "")


def _links_text(links: DirectLinks, index: Mapping[str, int]) -> str:
    count = plural(links.count, "link")
    if links.whole:
        gpus = format_cpus(sorted(index[id_] for id_ in links.gpus))
        return f"GPU {gpus}, each with each by {count}" if len(links.gpus) > 2 else f"GPU {gpus} by {count}"
    pairs = sorted(tuple(sorted((index[a], index[b]))) for a, b in links.pairs)
    return f"GPU {join_limited((f'{a}-{b}' for a, b in pairs), _PAIRS)} by {count}"
