"""The PCI tree: which functions there are, below which bridges, near which NUMA node, and how far two of them
are apart.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from schemas.hardware.sysfs.tree import Tree, integer

DEVICES = "/sys/bus/pci/devices"
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2}\.[0-7])\Z", re.IGNORECASE)
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}\Z", re.IGNORECASE)


class Function(NamedTuple):
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


def address_of(written: str) -> str | None:
    """`dddd:bb:dd.f` in lower case from any usual writing (`00000000:1A:00.0`, `1a:00.0`); None for anything
    else.
    """
    whole = written.strip() if written.count(":") == 2 else "0000:" + written.strip()
    found = _ADDRESS.match(whole)
    if not found:
        return None
    return f"{int(found.group(1), 16):04x}:{found.group(2)}:{found.group(3)}".lower()


def functions(tree: Tree, nodes: list[int]) -> dict[str, Function]:
    """All PCI functions by address. With a single NUMA node everything is near it, whatever the firmware left
    out.
    """
    only = nodes[0] if len(nodes) == 1 else None
    found = {}
    for name in tree.names(DEVICES):
        address = address_of(name)
        if address is not None:
            found[address] = _function(tree, name, address, only)
    return found


def _function(tree: Tree, name: str, address: str, only: int | None) -> Function:
    folder = f"{DEVICES}/{name}"
    root, path = chain(tree.real(folder))
    return Function(
        address=address,
        vendor=integer(tree, folder + "/vendor", 16) or 0,
        device=integer(tree, folder + "/device", 16) or 0,
        kind=(integer(tree, folder + "/class", 16) or 0) >> 8,
        numa_node=_numa_node(tree, [name, *reversed(path)], only),
        root=root,
        path=path,
        driver=_target(tree, folder + "/driver"),
        virtual=bool(_target(tree, folder + "/physfn")),
    )


def _target(tree: Tree, link: str) -> str:
    """The name of what a link points to, be that in the tree or not; empty when there is no link."""
    name = tree.real(link).rpartition("/")[2]
    return "" if name == link.rpartition("/")[2] else name


def chain(real: str) -> tuple[str, tuple[str, ...]]:
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
        node = integer(tree, f"{DEVICES}/{name}/numa_node")
        if node is not None and node >= 0:
            return node
    return only


def relation(a: Function, b: Function) -> str | None:
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
