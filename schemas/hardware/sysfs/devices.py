"""Devices that sessions care about, as the kernel lists them: RDMA NICs, NVMe drives, GPUs that have a driver
of their own.
"""

from __future__ import annotations

import re
from typing import Dict, NamedTuple

from schemas.hardware.sysfs.pci import PciFunction, normalize_address
from schemas.hardware.sysfs.tree import Tree, numbered_entries, read_natural, read_text

INFINIBAND = "/sys/class/infiniband"
NVME = "/sys/class/nvme"
KFD = "/sys/class/kfd/kfd/topology/nodes"
NVIDIA = 0x10DE
_DISPLAY = {0x0300, 0x0302, 0x0380}
_NVSWITCH, _NVME = 0x0680, 0x0108
_SECTOR = 512
_XGMI = 11

Functions = Dict[str, PciFunction]


class Device(NamedTuple):
    """A device in the shape of the model's Gpu, Nic or Disk, and where it sits."""

    id: str
    fields: dict[str, object]
    function: PciFunction | None


def location_fields(function: PciFunction | None, address: str | None) -> dict[str, object]:
    """The fields that say where a device sits."""
    if function is None:
        return {"pci": address}
    return {"pci": function.address, "numaNode": function.numa_node, "pciePath": list(function.path)}


def enclosing_function(tree: Tree, path: str, functions: Functions) -> PciFunction | None:
    """The innermost PCI function that a path of `/sys/class` belongs to; None for virtual devices."""
    for part in reversed(tree.real(path).split("/")):
        address = normalize_address(part) if part.count(":") == 2 else None
        if address in functions:
            return functions[address or ""]
    return None


def rdma_nics(tree: Tree, functions: Functions) -> list[Device]:
    """Physical RDMA devices; software ones (rxe, siw) and SR-IOV virtual functions are not hardware of their
    own.
    """
    found = []
    for name in sorted(tree.names(INFINIBAND), key=_natural_key):
        function = enclosing_function(tree, f"{INFINIBAND}/{name}/device", functions)
        if function is None or function.virtual:
            continue
        fields: dict[str, object] = {
            "id": name,
            **location_fields(function, None),
            **_port_fields(tree, f"{INFINIBAND}/{name}/ports"),
        }
        interfaces = tree.names(f"{INFINIBAND}/{name}/device/net")
        if interfaces:
            fields["interface"] = interfaces[0]
        found.append(Device(name, fields, function))
    return found


def _port_fields(tree: Tree, folder: str) -> dict[str, object]:
    """Link layer and speed of the first active port, else of the first."""
    ports = tree.names(folder)
    if not ports:
        return {}
    active = [port for port in ports if "ACTIVE" in (read_text(tree, f"{folder}/{port}/state") or "")]
    port = f"{folder}/{(active or ports)[0]}"
    layer = (read_text(tree, port + "/link_layer") or "").lower()
    rate = re.match(r"(\d{1,6}(?:\.\d+)?)\s*Gb/sec", read_text(tree, port + "/rate") or "")
    return {
        "linkLayer": layer if layer in ("infiniband", "ethernet") else None,
        "speedMbps": int(float(rate.group(1)) * 1000) if rate else None,
    }


def nvme_drives(tree: Tree, functions: Functions, unknown: list[str]) -> list[Device]:
    """NVMe controllers with the size of their namespaces."""
    found = []
    for name in sorted(tree.names(NVME), key=_natural_key):
        function = enclosing_function(tree, f"{NVME}/{name}", functions)
        if not re.match(r"nvme\d+\Z", name) or function is None:
            continue
        spaces = [entry for entry in tree.names(f"{NVME}/{name}") if re.match(r"nvme\d+(c\d+)?n\d+\Z", entry)]
        size = sum(read_natural(tree, f"{NVME}/{name}/{entry}/size") or 0 for entry in spaces) * _SECTOR
        found.append(Device(name, {"id": name, **location_fields(function, None), "size": size}, function))
    seen = {device.function.address for device in found if device.function}
    for function in functions.values():
        if function.kind == _NVME and function.address not in seen:
            unknown.append(
                f"size of the NVMe drive at {function.address}: {function.driver or 'no driver'} holds it"
            )
    return found


def nvidia_gpus(functions: Functions) -> list[PciFunction]:
    """NVIDIA GPUs that are on the bus, driver or not."""
    return [
        function for function in functions.values() if function.vendor == NVIDIA and function.kind in _DISPLAY
    ]


def nv_switches(functions: Functions) -> int:
    return sum(function.vendor == NVIDIA and function.kind == _NVSWITCH for function in functions.values())


def amd_gpus(tree: Tree, functions: Functions, first: int) -> list[Device]:
    """AMD GPUs that can compute: those that the kernel's compute driver (KFD) lists."""
    found: list[Device] = []
    for node in numbered_entries(tree, KFD, ""):
        address = _kfd_address(_read_properties(tree, f"{KFD}/{node}/properties"))
        function = functions.get(address) if address else None
        if function is None:
            continue
        folder = f"/sys/bus/pci/devices/{function.address}"
        unique = read_text(tree, folder + "/unique_id")
        fields: dict[str, object] = {
            "id": f"GPU-{unique}" if unique else function.address,
            "index": first + len(found),
            "slot": "rocm",
            "vendor": "amd",
            "model": read_text(tree, folder + "/product_name") or "",
            "memory": read_natural(tree, folder + "/mem_info_vram_total") or 0,
            **location_fields(function, None),
        }
        found.append(Device(str(fields["id"]), fields, function))
    return found


def xgmi_pairs(tree: Tree) -> list[list[str]]:
    """Pairs of PCI addresses with a direct XGMI link."""
    addresses = {
        node: _kfd_address(_read_properties(tree, f"{KFD}/{node}/properties"))
        for node in numbered_entries(tree, KFD, "")
    }
    pairs = set()
    for node in addresses:
        for link in tree.names(f"{KFD}/{node}/io_links"):
            facts = _read_properties(tree, f"{KFD}/{node}/io_links/{link}/properties")
            ends = [addresses.get(facts.get(key, -1)) for key in ("node_from", "node_to")]
            if facts.get("type") == _XGMI and ends[0] and ends[1]:
                pairs.add(tuple(sorted(str(end) for end in ends)))
    return [list(pair) for pair in sorted(pairs)]


def _read_properties(tree: Tree, path: str) -> dict[str, int]:
    pairs = (line.split() for line in (tree.read(path) or "").splitlines())
    return {
        pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and re.fullmatch(r"[0-9]{1,19}", pair[1])
    }


def _kfd_address(facts: dict[str, int]) -> str | None:
    """The PCI address of a KFD node with compute units; None for a CPU's."""
    if not facts.get("simd_count"):
        return None
    place = facts.get("location_id", 0)
    return f"{facts.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"


def _natural_key(name: str) -> list[tuple[int, str]]:
    """Numbers by their value, however long, which is by their length first."""
    parts = re.split("([0-9]+)", name)
    words = (part.lstrip("0") if at % 2 else part for at, part in enumerate(parts))
    return [(len(word) if at % 2 else 0, word) for at, word in enumerate(words)]
