"""NCCL's (and RCCL's) topology XML of a machine, or of what one container was given of it: `NCCL_TOPO_FILE`.

Only what is known is written. NCCL fills in what it finds missing (link speeds, compute capability, models of
CPUs, device numbers) from the machine itself (`ncclTopoGetXmlFromSys`, `ncclTopoGetXmlFromGpu`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from schemas.hardware.model import Disk, Gpu, Hardware, Nic
from schemas.hardware.sysfs.pci import normalize_address

_BRIDGE, _GPU, _AMD_GPU, _SWITCH = "0x060400", "0x030200", "0x038000", "0x068000"
_ETHERNET, _INFINIBAND = "0x020000", "0x020700"
_MOST_DIRECT = 18
"""NVLinks of one GPU of any generation so far: who has more pairs than that reaches them through switches."""
_VERSION = {"cuda": "1", "rocm": "2"}
"""NCCL and RCCL each read their own version only."""


@dataclass(frozen=True, slots=True)
class DeviceSubset:
    """The devices that the file shall name, by id; None for all of the machine."""

    gpus: Collection[str] | None = None
    nics: Collection[str] | None = None


WHOLE = DeviceSubset()


def export_problem(hardware: Hardware, excerpt: DeviceSubset = WHOLE) -> str:
    """Why this machine's topology cannot be written; empty when it can."""
    gpus, nics = _gpus(hardware, excerpt), _nics(hardware, excerpt)
    if not gpus:
        return "there is no GPU to describe"
    if len({gpu.slot for gpu in gpus}) > 1 or gpus[0].slot not in _VERSION:
        return "neither NCCL nor RCCL drives these GPUs together"
    nodes = {numa.id for numa in hardware.numa_nodes}
    devices: list[Gpu | Nic] = [*gpus, *nics]
    for device in devices:
        if normalize_address(device.pci or "") is None:
            return f"the PCI address of {device.id} is not known"
        if device.numa_node not in nodes:
            return f"the NUMA node of {device.id} is not known"
    places = [(gpu.pci, gpu.id) for gpu in gpus]
    if len({place for place, _ in places}) < len(places):
        return "two GPUs have one PCI address"
    return _tree_problem(devices)


def _tree_problem(devices: list[Gpu | Nic]) -> str:
    """A bridge has one place: captures that were put together may disagree on it."""
    above: dict[str, tuple[object, ...]] = {}
    for device in devices:
        for at, bridge in enumerate(device.pcie_path):
            place = (device.numa_node, *device.pcie_path[:at])
            if above.setdefault(bridge, place) != place:
                return f"where PCI bridge {bridge} sits is not certain"
    if any(device.pci in above for device in devices):
        return "a device is given as a bridge of another"
    return ""


def export_nccl(hardware: Hardware, excerpt: DeviceSubset = WHOLE) -> str:
    """The XML text; the same facts give the same text. Raises ValueError with the `export_problem`.

    GPUs are numbered (`dev`) where all are named; a container counts those it sees, so NCCL asks its driver.
    """
    why = export_problem(hardware, excerpt)
    if why:
        raise ValueError(why)
    gpus, nics = _gpus(hardware, excerpt), _nics(hardware, excerpt)
    tree = _TopologyTree(hardware, Element("system", version=_VERSION[gpus[0].slot]))
    links = _direct_links(hardware, gpus)
    for gpu in gpus:
        _add_gpu(tree.device(gpu), gpu, links.get(gpu.id, []), number=len(gpus) == len(hardware.gpus))
    for nic in nics:
        _add_nic(tree.device(nic), nic)
    indent(tree.root)
    # NCCL's parser takes a space for the beginning of another attribute.
    return tostring(tree.root, encoding="unicode").replace(" />", "/>") + "\n"


def _gpus(hardware: Hardware, excerpt: DeviceSubset) -> list[Gpu]:
    kept = [gpu for gpu in hardware.gpus if excerpt.gpus is None or gpu.id in excerpt.gpus]
    return sorted(kept, key=lambda gpu: gpu.index)


def _nics(hardware: Hardware, excerpt: DeviceSubset) -> list[Nic]:
    """RDMA is not asked for: what NCCL does not use it leaves out itself."""
    return [nic for nic in hardware.nics if excerpt.nics is None or nic.id in excerpt.nics]


def _upstream_ports(path: tuple[str, ...]) -> tuple[str, ...]:
    """The upstream port of each switch on a path of ports: every second one, counted from the device."""
    return path[-2::-2][::-1]


def _switches(hardware: Hardware) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Which bridges of a path NCCL wants: one per PCI switch.

    A switch shows as an upstream port with a downstream port for each device below. Where several devices sit
    right below one bridge, or devices would lose the bridge they share, the paths are of switches already.
    """
    every: list[Gpu | Nic | Disk] = [*hardware.gpus, *hardware.nics, *hardware.disks]
    devices = [each for each in every if each.pcie_path]
    for at, a in enumerate(devices):
        for b in devices[at + 1 :]:
            if str(a.pci).partition(".")[0] == str(b.pci).partition(".")[0]:
                continue  # functions of one card are behind one port
            together = a.pcie_path[-1] == b.pcie_path[-1]
            shared = set(a.pcie_path) & set(b.pcie_path)
            if together or (
                shared and not set(_upstream_ports(a.pcie_path)) & set(_upstream_ports(b.pcie_path))
            ):
                return lambda path: path
    return _upstream_ports


class _TopologyTree:
    """The document under way: elements are found again by what makes them unique."""

    def __init__(self, hardware: Hardware, root: Element) -> None:
        self.root = root
        self._switches = _switches(hardware)
        self._cpus: dict[int, Element] = {}
        self._pci: dict[str, Element] = {}
        homes = {each.numa_node for each in hardware.gpus} | {each.numa_node for each in hardware.nics}
        for numa in hardware.numa_nodes:
            if numa.cpus or numa.id in homes:
                self._cpus[numa.id] = SubElement(
                    root,
                    "cpu",
                    numaid=str(numa.id),
                    affinity=_format_mask(numa.cpus),
                    arch=hardware.architecture,
                )

    def device(self, device: Gpu | Nic) -> Element:
        """The `<pci>` of a device below its bridges; functions that share an address share it."""
        here = self._cpus[device.numa_node if device.numa_node is not None else 0]
        for bridge in self._switches(device.pcie_path):
            here = self._element_below(here, bridge, {"class": _BRIDGE})
        return self._element_below(here, str(device.pci), {})

    def _element_below(self, parent: Element, address: str, fields: Mapping[str, str]) -> Element:
        if address not in self._pci:
            self._pci[address] = SubElement(parent, "pci", busid=address, attrib=dict(fields))
        return self._pci[address]


def _format_mask(cpus: Collection[int]) -> str:
    """The kernel's notation: words of 32 bits, the highest first."""
    bits = sum(1 << cpu for cpu in cpus)
    words = max(1, -(-bits.bit_length() // 32))
    return ",".join(f"{bits >> 32 * at & 0xFFFFFFFF:08x}" for at in reversed(range(words)))


@dataclass(slots=True)
class _LinkTarget:
    """Where one GPU's direct links lead."""

    address: str
    kind: str
    count: int
    tag: str = field(default="nvlink")


def _direct_links(hardware: Hardware, gpus: list[Gpu]) -> dict[str, list[_LinkTarget]]:
    """Direct links between these GPUs, by GPU; into switches where there are any."""
    addresses = {gpu.id: str(gpu.pci) for gpu in gpus}
    counts: dict[str, dict[str, int]] = {}
    xgmi = False
    for link in hardware.links:
        if link.kind in ("NV", "XGMI"):
            xgmi = xgmi or link.kind == "XGMI"
            counts.setdefault(link.a, {})[link.b] = link.count
            counts.setdefault(link.b, {})[link.a] = link.count
    if not xgmi and _has_switches(hardware, counts):
        return {
            gpu: _into_switches(hardware, max(counts[gpu].values())) for gpu in addresses if gpu in counts
        }
    tag, kind = ("xgmi", _AMD_GPU) if xgmi else ("nvlink", "0x030200")
    return {
        gpu: [
            _LinkTarget(addresses[to], kind, counts[gpu][to], tag)
            for to in addresses
            if to in counts.get(gpu, {})
        ]
        for gpu in addresses
    }


def _has_switches(hardware: Hardware, counts: Mapping[str, Mapping[str, int]]) -> bool:
    return bool(hardware.nv_switches) or any(sum(to.values()) > _MOST_DIRECT for to in counts.values())


def _into_switches(hardware: Hardware, count: int) -> list[_LinkTarget]:
    """Spread evenly. Where a switch sits is not known and of no consequence: NCCL counts the links only.

    The addresses are of a domain that no machine has, as in files that clouds hand to their machines.
    """
    switches = min(max(1, hardware.nv_switches), count)
    share, more = divmod(count, switches)
    return [_LinkTarget(f"ffff:fe:{at:02x}.0", _SWITCH, share + (at < more)) for at in range(switches)]


def _add_gpu(pci: Element, gpu: Gpu, links: list[_LinkTarget], *, number: bool) -> None:
    amd = gpu.slot == "rocm"
    pci.set("class", _AMD_GPU if amd else _GPU)
    pci.set("vendor", "0x1002" if amd else "0x10de")
    element = SubElement(pci, "gpu", {"dev": str(gpu.index)} if number else {})
    for link in links:
        SubElement(element, link.tag, target=link.address, count=str(link.count), tclass=link.kind)


def _add_nic(pci: Element, nic: Nic) -> None:
    pci.set("class", _INFINIBAND if nic.link_layer == "infiniband" else _ETHERNET)
    element = pci.find("nic")
    element = SubElement(pci, "nic") if element is None else element
    if nic.id != nic.pci:
        speed = {"speed": str(nic.speed_mbps)} if nic.speed_mbps else {}
        SubElement(element, "net", name=nic.id, attrib=speed)
