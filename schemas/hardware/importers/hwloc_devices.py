"""I/O devices in hwloc's XML: GPUs, RDMA NICs, NVMe drives, where they sit, and the GPUs' direct links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from schemas.hardware.importers.facts import Facts, LinkFacts
from schemas.hardware.importers.hwloc_cpuset import parse_cpuset
from schemas.hardware.importers.hwloc_distances import Matrix, matrices
from schemas.hardware.importers.pci_links import pci_links, switched_links, unknown_function
from schemas.hardware.importers.safe_xml import parse_number
from schemas.hardware.sysfs.pci import PciFunction, normalize_address

_VENDORS = {"10de": ("cuda", "nvidia"), "1002": ("rocm", "amd")}
_RDMA, _NETWORK = (3, 1 << 5), (2, 1 << 4)
"""The operating system's kinds of device: a number until version 2, a bit from version 3."""
_INFINIBAND = (0x0207, 0x0C06)
"""PCI classes of InfiniBand controllers: of networks, and of serial buses, as older cards have it."""
_AMD_COMPUTE = (
    *("6860", "66a0", "66a1", "738c", "738e", "7408", "740c", "740f"),  # MI25 to MI250X
    *("74a0", "74a1", "74a2", "74a5", "74a9", "75a0", "75a3"),  # MI300A to MI355X
)
"""Instinct; some of them say that they are VGA controllers."""
_AMD_CONSOLES = frozenset(["4752", "4759", "5159", "515e", "5960", "5965"])
"""Rage XL, RV100, ES1000: what server boards have for their console."""
_UNITS = (25_000, 20_000)


class _PciDevice(NamedTuple):
    element: Element
    place: PciFunction
    kind: int
    vendor: str
    device: str
    system: list[Element]
    """The operating system's devices below it."""
    version: int

    def names_of_kind(self, kind: tuple[int, int]) -> list[str]:
        """The names of the devices of a kind."""
        types = [
            (element.get("name"), parse_number(element.get("osdev_type")) or 0) for element in self.system
        ]
        old, bit = kind
        return [str(name) for name, given in types if (given & bit if self.version >= 3 else given == old)]

    def info(self, name: str) -> str | None:
        infos = [info for element in [*self.system, self.element] for info in element.findall("info")]
        return next((info.get("value") for info in infos if info.get("name") == name), None)


def add_devices(facts: Facts, root: Element, machine: Element, cpus: Mapping[int, tuple[int, ...]]) -> None:
    """Whether a topology was taken without I/O cannot be told from one without any: no PCI device at all
    means unknown."""
    version = parse_number((root.get("version") or "1").partition(".")[0]) or 1
    placed: list[tuple[Element, PciFunction]] = []
    _collect_pci_devices(machine, _only_cpu_node(cpus), "", (), cpus, placed)
    found = [_pci_device(element, place, version) for element, place in placed]
    if not found:
        return
    facts.gpus, facts.nics, facts.disks = [], [], []
    places: list[tuple[str, PciFunction]] = []
    serials: dict[str, str] = {}
    for pci in found:
        for fields, target in _device_fields(pci, facts):
            where = {"pci": pci.place.address, "numa_node": pci.place.numa_node, "pcie_path": pci.place.path}
            target.append({**fields, **where})
            if target is not facts.disks:
                places.append((str(fields["id"]), pci.place))
            if target is facts.gpus:
                elements = [pci.element, *pci.system]
                serials.update({f"{e.get('type')}:{e.get('gp_index')}": str(fields["id"]) for e in elements})
    if version < 3 and not any(matrix.name == "NVLinkBandwidth" for matrix in matrices(root)):
        _note_hidden_links(facts)
    facts.nv_switches = sum(pci.element.get("subtype") == "NVSwitch" for pci in found)
    for matrix in matrices(root):
        if matrix.name in ("NVLinkBandwidth", "XGMIBandwidth"):
            facts.links += _bandwidth_links(matrix, serials)
    facts.links += pci_links(places, facts.links)


def _note_hidden_links(facts: Facts) -> None:
    if sum(gpu["vendor"] == "nvidia" for gpu in facts.gpus or ()) > 1:
        facts.notes.append("NVLinks between GPUs: this capture shows none, and older hwloc never did")


def _only_cpu_node(cpus: Mapping[int, tuple[int, ...]]) -> int | None:
    """The only node with CPUs, where there is only one."""
    owners = [node for node, own in cpus.items() if own]
    return owners[0] if len(owners) == 1 else None


def _collect_pci_devices(
    element: Element,
    near: int | None,
    bridge: str,
    path: tuple[str, ...],
    cpus: Mapping[int, tuple[int, ...]],
    found: list[tuple[Element, PciFunction]],
) -> None:
    for at, child in enumerate(element.findall("object")):
        kind, address = child.get("type"), normalize_address(child.get("pci_busid", ""))
        if kind == "Bridge" and (child.get("bridge_type") or "").startswith("0-"):
            _collect_pci_devices(
                child,
                near,
                f"{bridge}/{child.get('gp_index') or at}/{child.get('bridge_pci')}",
                (),
                cpus,
                found,
            )
        elif kind == "Bridge" and address:
            _collect_pci_devices(child, near, bridge, (*path, address), cpus, found)
        elif kind == "PCIDev" and address:
            found.append((child, unknown_function(address, bridge or "pci", path, near)))
        elif kind not in ("PU", "OSDev", "Bridge", "PCIDev"):
            _collect_pci_devices(child, _nearest_node(child, near, cpus), bridge, path, cpus, found)


def _nearest_node(element: Element, near: int | None, cpus: Mapping[int, tuple[int, ...]]) -> int | None:
    """The node with CPUs that an object belongs to, when it is one."""
    if not element.get("cpuset"):
        return near
    own = set(parse_cpuset(element.get("cpuset"), ()))
    owners = [node for node, theirs in cpus.items() if theirs and own & set(theirs)]
    return owners[0] if len(owners) == 1 else None


def _pci_device(element: Element, place: PciFunction, version: int) -> _PciDevice:
    told = re.match(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]", (element.get("pci_type") or "").lower())
    kind, vendor, device = (int(told[1], 16), told[2], told[3]) if told else (0, "", "")
    system = [child for child in element.iter("object") if child.get("type") == "OSDev"]
    return _PciDevice(element, place, kind, vendor, device, system, version)


def _device_fields(pci: _PciDevice, facts: Facts) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    names = [str(element.get("name")) for element in pci.system]
    _note_doubtful_gpu(facts, pci, names)
    if facts.gpus is not None and _is_compute_gpu(pci, names):
        return [(_gpu_fields(pci, names), facts.gpus)]
    if (pci.kind >> 8 == 0x02 or pci.kind in _INFINIBAND) and facts.nics is not None:
        fields = {"interface": next(iter(pci.names_of_kind(_NETWORK)), None)}
        unnamed = [pci.place.address] if pci.kind in _INFINIBAND else []
        return [({"id": name, **fields}, facts.nics) for name in pci.names_of_kind(_RDMA) or unnamed]
    drives = [name for name in names if re.match(r"nvme\d+", name)]
    if pci.kind == 0x0108 and drives and facts.disks is not None:
        size = re.match(r"(\d{1,15})", pci.info("Size") or "")
        name = re.match(r"nvme\d+", drives[0])
        return [
            ({"id": name[0] if name else drives[0], "size": int(size[1]) * 1024 if size else 0}, facts.disks)
        ]
    return []


def _is_compute_gpu(pci: _PciDevice, names: list[str]) -> bool:
    """Whether a display device is a GPU to compute on: NVIDIA's are; AMD made server consoles, too."""
    if pci.kind >> 8 != 0x03 or pci.vendor not in _VENDORS:
        return pci.kind == 0x1200 and pci.vendor in _VENDORS
    return pci.vendor == "10de" or _is_amd_compute(pci, names)


def _is_amd_compute(pci: _PciDevice, names: list[str]) -> bool:
    known = pci.kind != 0x0300 or pci.device in _AMD_COMPUTE
    return known or any(re.match("(rsmi|opencl)", name) for name in names)


def _note_doubtful_gpu(facts: Facts, pci: _PciDevice, names: list[str]) -> None:
    """hwloc 1 knows no ROCm, so that nothing tells a GPU from what only draws."""
    doubtful = pci.vendor == "1002" and pci.kind == 0x0300 and pci.device not in _AMD_CONSOLES
    if doubtful and not _is_amd_compute(pci, names):
        facts.notes.append(
            f"whether the AMD device at {pci.place.address} (1002:{pci.device}) is a GPU to compute on"
        )


def _gpu_fields(pci: _PciDevice, names: list[str]) -> dict[str, Any]:
    slot, vendor = _VENDORS[pci.vendor]
    memory = parse_number(
        pci.info("NVIDIAMemory") or pci.info("CUDAGlobalMemorySize") or pci.info("OpenCLGlobalMemorySize")
    )
    index = next(
        (int(found[1]) for name in names if (found := re.fullmatch(r"(?:nvml|rsmi|cuda)(\d{1,3})", name))),
        None,
    )
    return {
        "id": pci.info("NVIDIAUUID") or pci.info("AMDUUID") or pci.place.address,
        "index": index,
        "slot": slot,
        "vendor": vendor,
        "model": pci.info("GPUModel") or pci.info("PCIDevice") or "",
        "memory": memory * 1024 if memory else 0,
    }


def _bandwidth_links(matrix: Matrix, serials: Mapping[str, str]) -> list[LinkFacts]:
    """Links from bandwidths in MB/s: of NVLinks by the speed of one, of XGMI only that there is one."""
    kind = "NV" if matrix.name.startswith("NV") else "XGMI"
    names = [serials.get(name) for name in matrix.objects]
    to_switch: dict[str, int] = {}
    direct: dict[tuple[str, str], int] = {}
    for row, a in enumerate(names):
        for column, b in enumerate(names):
            value = matrix.at(row, column)
            if a is None or a == b or not value:
                continue
            count = next((value // unit for unit in _UNITS if value % unit == 0), 1) if kind == "NV" else 1
            if b is not None:
                direct[min(a, b), max(a, b)] = count
            elif not matrix.objects[column].startswith("OSDev"):
                to_switch[a] = to_switch.get(a, 0) + count
    order = list(dict.fromkeys(name for name in names if name))
    return [LinkFacts(a, b, kind, count) for (a, b), count in direct.items()] + switched_links(
        to_switch, order
    )
