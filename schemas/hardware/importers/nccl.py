"""NCCL's (and RCCL's) topology XML: `NCCL_TOPO_FILE`, `NCCL_TOPO_DUMP_FILE`. Graph files are something else
and are refused.

Its tree begins at the CPU: which host bridge a device sits behind is not in it.
"""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from schemas.hardware.cpulist import parse_mask
from schemas.hardware.importers.facts import Facts, LinkFacts, UnreadableCapture
from schemas.hardware.importers.pci_links import pci_links, switched_links, unknown_function
from schemas.hardware.importers.safe_xml import parse_number, parse_xml
from schemas.hardware.sysfs.pci import PciFunction, normalize_address

_SWITCH = 0x0680
_AMD = 0x1002


class _TopologyReader:
    def __init__(self) -> None:
        self.facts = Facts("NCCL topology XML", all_nodes=True, gpus=[], nics=[])
        self.places: list[tuple[str, PciFunction]] = []
        self.direct: list[tuple[str, str, str, int]] = []
        self.to_switch: dict[str, int] = {}
        self.switches: set[str] = set()
        self.undescribed = 0

    def cpu(self, cpu: Element) -> None:
        given = parse_number(cpu.get("numaid", "").replace("-1", "0"))
        if given is None:
            raise UnreadableCapture(f"a cpu has no NUMA node (numaid={cpu.get('numaid')!r})")
        try:
            self.facts.node(given).cpus = parse_mask(cpu.get("affinity", ""))
        except ValueError as error:
            raise UnreadableCapture(f"cpu {given}: {error}") from None
        self.facts.architecture = cpu.get("arch") or self.facts.architecture
        for child in cpu.findall("pci"):
            self.pci(child, given, ())

    def pci(self, pci: Element, node: int, path: tuple[str, ...]) -> None:
        address = normalize_address(pci.get("busid", ""))
        if address is None:
            raise UnreadableCapture(f"{pci.get('busid')!r} is not a PCI address")
        kind = (parse_number(pci.get("class"), 16) or 0) >> 8
        place = unknown_function(address, f"cpu{node}", path, node)
        fields: dict[str, Any] = {"pci": address, "numa_node": node, "pcie_path": path}
        if kind >> 8 == 0x03 or kind == 0x1200 or pci.find("gpu") is not None:
            self.gpu(pci, kind, fields, place)
        elif kind >> 8 == 0x02 or pci.find("nic") is not None:
            self.nic(pci, fields, place)
        for child in pci.findall("pci"):
            self.pci(child, node, (*path, address))

    def gpu(self, pci: Element, kind: int, fields: dict[str, Any], place: PciFunction) -> None:
        vendor, gpu, address = parse_number(pci.get("vendor"), 16), pci.find("gpu"), place.address
        amd = (
            vendor == _AMD
            or (gpu is not None and gpu.get("gcn") is not None)
            or (vendor is None and kind == 0x0380)
        )
        index = parse_number(gpu.get("dev")) if gpu is not None else None
        fields |= {
            "id": address,
            "index": index,
            "slot": "rocm" if amd else "cuda",
            "vendor": "amd" if amd else "nvidia",
        }
        self.facts.gpus = [*(self.facts.gpus or ()), fields]
        self.places.append((address, place))
        self.undescribed += gpu is None and not amd
        for link in gpu if gpu is not None else ():
            target, count = normalize_address(link.get("target", "")), parse_number(link.get("count")) or 1
            if link.tag not in ("nvlink", "xgmi") or target in (None, address):
                continue
            if (parse_number(link.get("tclass"), 16) or 0) >> 8 == _SWITCH:
                self.to_switch[address] = self.to_switch.get(address, 0) + count
                self.switches.add(str(target))
            else:
                self.direct.append((address, str(target), "NV" if link.tag == "nvlink" else "XGMI", count))

    def nic(self, pci: Element, fields: dict[str, Any], place: PciFunction) -> None:
        ports = {net.get("name"): net for net in pci.iter("net") if net.get("name")}
        for name, net in ports.items() or [(None, None)]:
            speed = parse_number(net.get("speed")) if net is not None else None
            identity = name or place.address
            self.facts.nics = [*(self.facts.nics or ()), {**fields, "id": identity, "speed_mbps": speed}]
            self.places.append((str(identity), place))

    def finish(self) -> Facts:
        facts = self.facts
        order = [str(gpu["id"]) for gpu in facts.gpus or ()]
        facts.links = [
            LinkFacts(a, b, kind, count) for a, b, kind, count in self.direct if a < b and b in order
        ]
        facts.links += switched_links(self.to_switch, order)
        facts.links += pci_links(self.places, facts.links)
        facts.nv_switches = len(self.switches)
        if self.undescribed > 1:
            facts.notes.append("NVLinks between GPUs: this NCCL topology leaves them to be detected")
        return facts


def read_nccl(data: bytes) -> Facts:
    """Raises UnreadableCapture, for `<graphs>` as well."""
    root = parse_xml(data)
    if root.tag == "graphs":
        raise UnreadableCapture(
            "this is an NCCL graph file (rings and trees), not a topology; NCCL_TOPO_DUMP_FILE writes one"
        )
    reader = _TopologyReader()
    for cpu in root.findall("cpu"):
        reader.cpu(cpu)
    if not reader.facts.nodes:
        raise UnreadableCapture("an NCCL topology without a <cpu>")
    return reader.finish()
