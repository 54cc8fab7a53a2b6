"""The PCI tree: which functions there are, below which bridges, near which NUMA node, and how far two of them
are apart.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from schemas.hardware.sysfs.tree import Tree, read_integer

DEVICES = "/sys/bus/pci/devices"
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2}\.[0-7])\Z", re.IGNORECASE)
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}\Z", re.IGNORECASE)


class PciFunction(NamedTuple):
    """One PCI function."""

    address: str
    vendor: int
    device: int
    kind: int
    """Class and subclass, e.g. 0x0302 for a 3D controller."""
    numa_node: int | None
    root: str
    """Its host bridge, `pci0000:00`."""
    path: tuple[str, ...]
    """Bridges from the root port down, without the function itself."""
    driver: str
    virtual: bool
    """An SR-IOV virtual function."""


def normalize_address(written: str) -> str | None:
    """`dddd:bb:dd.f` in lower case from any usual writing (`00000000:1A:00.0`, `1a:00.0`); None for anything
    else.
    """
    whole = written.strip() if written.count(":") == 2 else "0000:" + written.strip()
    found = _ADDRESS.match(whole)
    if not found:
        return None
    return f"{int(found.group(1), 16):04x}:{found.group(2)}:{found.group(3)}".lower()


def pci_functions(tree: Tree, nodes: list[int]) -> dict[str, PciFunction]:
    """All PCI functions by address. With a single NUMA node everything is near it, whatever the firmware left
    out.
    """
    only = nodes[0] if len(nodes) == 1 else None
    found = {}
    for name in tree.names(DEVICES):
        address = normalize_address(name)
        if address is not None:
            found[address] = _read_function(tree, name, address, only)
    return found


def _read_function(tree: Tree, name: str, address: str, only: int | None) -> PciFunction:
    folder = f"{DEVICES}/{name}"
    root, path = bridge_chain(tree.real(folder))
    return PciFunction(
        address=address,
        vendor=read_integer(tree, folder + "/vendor", 16) or 0,
        device=read_integer(tree, folder + "/device", 16) or 0,
        kind=(read_integer(tree, folder + "/class", 16) or 0) >> 8,
        numa_node=_numa_node(tree, [name, *reversed(path)], only),
        root=root,
        path=path,
        driver=_link_target(tree, folder + "/driver"),
        virtual=bool(_link_target(tree, folder + "/physfn")),
    )


def _link_target(tree: Tree, link: str) -> str:
    """The name of what a link points to, be that in the tree or not; empty when there is no link."""
    name = tree.real(link).rpartition("/")[2]
    return "" if name == link.rpartition("/")[2] else name


def bridge_chain(real: str) -> tuple[str, tuple[str, ...]]:
    """Host bridge and bridges of a device's real path below `/sys/devices`."""
    root = ""
    path: list[str] = []
    for part in real.split("/"):
        if _ROOT.match(part):
            root, path = part.lower(), []
        elif _ADDRESS.match(part):
            path.append(part.lower())
    return root, tuple(path[:-1])


def _numa_node(tree: Tree, upwards: list[str], only: int | None) -> int | None:
    """The node of the function, else of the nearest bridge above it that knows one."""
    for name in upwards:
        node = read_integer(tree, f"{DEVICES}/{name}/numa_node")
        if node is not None and node >= 0:
            return node
    return only


def pci_relation(a: PciFunction, b: PciFunction) -> str | None:
    """The class of the way between two functions, as `nvidia-smi topo -m` names it; None when it cannot be
    told.
    """
    if a.root and a.root == b.root:
        shared = 0
        for left, right in zip(a.path, b.path):
            if left != right:
                break
            shared += 1
        if shared:
            return "PIX" if max(len(a.path), len(b.path)) - shared <= 1 else "PXB"
        return "PHB"
    if a.numa_node is None or b.numa_node is None:
        return None
    return "NODE" if a.numa_node == b.numa_node else "SYS"
