"""I/O devices in hwloc's XML: GPUs, RDMA NICs, NVMe drives, where they sit, and the GPUs' direct links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from schemas.hardware.importers.facts import Facts, LinkFacts
from schemas.hardware.importers.hwloc_distances import Matrix, matrices
from schemas.hardware.importers.markup import number
from schemas.hardware.importers.pci_links import function, pci_links, switched
from schemas.hardware.sysfs.pci import Function, address_of

_VENDORS = {"10de": ("cuda", "nvidia"), "1002": ("rocm", "amd")}
_RDMA, _NETWORK = (3, 1 << 5), (2, 1 << 4)
"""The operating system's kinds of device: a number until version 2, a bit from version 3."""
_UNITS = (25_000, 20_000)


class _Pci(NamedTuple):
    element: Element
    place: Function
    kind: int
    vendor: str
    system: list[Element]
    """The operating system's devices below it."""
    version: int

    def named(self, kind: tuple[int, int]) -> list[str]:
        """The names of the devices of a kind."""
        types = [(element.get("name"), number(element.get("osdev_type")) or 0) for element in self.system]
        old, bit = kind
        return [str(name) for name, given in types if (given & bit if self.version >= 3 else given == old)]

    def info(self, name: str) -> str | None:
        infos = [info for element in [*self.system, self.element] for info in element.findall("info")]
        return next((info.get("value") for info in infos if info.get("name") == name), None)


def add_devices(facts: Facts, root: Element, machine: Element, cpus: Mapping[int, tuple[int, ...]]) -> None:
    """Whether a topology was taken without I/O cannot be told from one without any: no PCI device at all
    means unknown."""
    version = number((root.get("version") or "1").partition(".")[0]) or 1
    placed: list[tuple[Element, Function]] = []
    _walk(machine, _all_near(cpus), "", (), cpus, placed)
    found = [_pci(element, place, version) for element, place in placed]
    if not found:
        return
    facts.gpus, facts.nics, facts.disks = [], [], []
    places: list[tuple[str, Function]] = []
    serials: dict[str, str] = {}
    for pci in found:
        for fields, target in _devices(pci, facts):
            where = {"pci": pci.place.address, "numa_node": pci.place.numa_node, "pcie_path": pci.place.path}
            target.append({**fields, **where})
            if target is not facts.disks:
                places.append((str(fields["id"]), pci.place))
            if target is facts.gpus:
                elements = [pci.element, *pci.system]
                serials.update({f"{e.get('type')}:{e.get('gp_index')}": str(fields["id"]) for e in elements})
    if version < 3 and not any(matrix.name == "NVLinkBandwidth" for matrix in matrices(root)):
        _say_hidden_links(facts)
    facts.nv_switches = sum(pci.element.get("subtype") == "NVSwitch" for pci in found)
    for matrix in matrices(root):
        if matrix.name in ("NVLinkBandwidth", "XGMIBandwidth"):
            facts.links += _direct(matrix, serials)
    facts.links += pci_links(places, facts.links)


def _say_hidden_links(facts: Facts) -> None:
    if sum(gpu["vendor"] == "nvidia" for gpu in facts.gpus or ()) > 1:
        facts.notes.append("NVLinks between GPUs: this capture shows none, and older hwloc never did")


def _all_near(cpus: Mapping[int, tuple[int, ...]]) -> int | None:
    """The only node with CPUs, where there is only one."""
    owners = [node for node, own in cpus.items() if own]
    return owners[0] if len(owners) == 1 else None


def _walk(
    element: Element,
    near: int | None,
    bridge: str,
    path: tuple[str, ...],
    cpus: Mapping[int, tuple[int, ...]],
    found: list[tuple[Element, Function]],
) -> None:
    for at, child in enumerate(element.findall("object")):
        kind, address = child.get("type"), address_of(child.get("pci_busid", ""))
        if kind == "Bridge" and (child.get("bridge_type") or "").startswith("0-"):
            _walk(
                child,
                near,
                f"{bridge}/{child.get('gp_index') or at}/{child.get('bridge_pci')}",
                (),
                cpus,
                found,
            )
        elif kind == "Bridge" and address:
            _walk(child, near, bridge, (*path, address), cpus, found)
        elif kind == "PCIDev" and address:
            found.append((child, function(address, bridge or "pci", path, near)))
        elif kind not in ("PU", "OSDev", "Bridge", "PCIDev"):
            _walk(child, _near(child, near, cpus), bridge, path, cpus, found)


def _near(element: Element, near: int | None, cpus: Mapping[int, tuple[int, ...]]) -> int | None:
    """The node with CPUs that an object belongs to, when it is one."""
    from schemas.hardware.importers.hwloc import cpuset

    if not element.get("cpuset"):
        return near
    own = set(cpuset(element.get("cpuset"), ()))
    owners = [node for node, theirs in cpus.items() if theirs and own & set(theirs)]
    return owners[0] if len(owners) == 1 else None


def _pci(element: Element, place: Function, version: int) -> _Pci:
    told = re.match(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]", (element.get("pci_type") or "").lower())
    kind, vendor = (int(told[1], 16), told[2]) if told else (0, "")
    system = [child for child in element.iter("object") if child.get("type") == "OSDev"]
    return _Pci(element, place, kind, vendor, system, version)


def _devices(pci: _Pci, facts: Facts) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    names = [str(element.get("name")) for element in pci.system]
    if facts.gpus is not None and _computes(pci, names):
        return [(_gpu(pci, names), facts.gpus)]
    if pci.kind >> 8 == 0x02 and facts.nics is not None:
        fields = {"interface": next(iter(pci.named(_NETWORK)), None)}
        return [({"id": name, **fields}, facts.nics) for name in pci.named(_RDMA)]
    drives = [name for name in names if re.match(r"nvme\d+", name)]
    if pci.kind == 0x0108 and drives and facts.disks is not None:
        size = re.match(r"(\d{1,15})", pci.info("Size") or "")
        name = re.match(r"nvme\d+", drives[0])
        return [
            ({"id": name[0] if name else drives[0], "size": int(size[1]) * 1024 if size else 0}, facts.disks)
        ]
    return []


def _computes(pci: _Pci, names: list[str]) -> bool:
    """Whether a display device is a GPU to compute on: NVIDIA's are; AMD made server consoles, too."""
    if pci.kind >> 8 != 0x03 or pci.vendor not in _VENDORS:
        return pci.kind == 0x1200 and pci.vendor in _VENDORS
    return (
        pci.vendor == "10de" or pci.kind != 0x0300 or any(re.match("(rsmi|opencl)", name) for name in names)
    )


def _gpu(pci: _Pci, names: list[str]) -> dict[str, Any]:
    slot, vendor = _VENDORS[pci.vendor]
    memory = number(
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


def _direct(matrix: Matrix, serials: Mapping[str, str]) -> list[LinkFacts]:
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
    return [LinkFacts(a, b, kind, count) for (a, b), count in direct.items()] + switched(to_switch, order)
