"""How well devices are connected, as one integer per pair: lower is better, sums over pairs compare
lexicographically.

Direct links (NVLink, xGMI) count first, by their number; then the PCI classes of `nvidia-smi topo -m`, worst
first: a set with fewer
pairs that cross sockets (SYS) wins over one with fewer pairs that cross host bridges (NODE), and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from schemas.hardware.model import Gpu, Hardware, LinkKind, Nic
from schemas.values.once_per_value import once_per_value

DIRECT = 1 << 40
"""Worth of one direct link, above any sum of PCI classes of up to 255 pairs."""
PCI = {"PIX": 1, "PXB": 1 << 8, "PHB": 1 << 16, "NODE": 1 << 24, "SYS": 1 << 32}
_NEAREST = {"PIX": 0, "PXB": 1, "PHB": 2, "NODE": 3, "SYS": 4}
_DIRECT_KINDS = {"NV", "XGMI"}
_Declared = Mapping[tuple[str, str], tuple[LinkKind, int]]


@dataclass(frozen=True, slots=True)
class DirectLinks:
    """GPUs with direct links among them: `pairs` of their ids, each by `count` links; `whole`: every pair of
    them is one."""

    kind: LinkKind
    count: int
    pairs: tuple[tuple[str, str], ...]
    gpus: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return len(self.pairs) == len(self.gpus) * (len(self.gpus) - 1) // 2


def pair_costs(hardware: Hardware, gpus: Sequence[Gpu]) -> list[list[int]]:
    """Square matrix of pair costs in the order of `gpus`; the diagonal is 0."""
    declared = _declared_links(hardware)
    return [[0 if a.id == b.id else _gpu_cost(declared, a, b) for b in gpus] for a in gpus]


def nic_costs(hardware: Hardware, gpus: Sequence[Gpu], among: Collection[str] | None = None) -> list[int]:
    """For each GPU the PCI distance to its nearest RDMA NIC (`among` these ids, if given), 0 (same switch) to
    4 (other socket); 5 without one."""
    declared = _declared_links(hardware)
    rdma = [nic for nic in hardware.nics if nic.rdma and (among is None or nic.id in among)]
    return [min((_NEAREST[_pci_class(declared, gpu, nic)] for nic in rdma), default=5) for gpu in gpus]


def nearest_nics(hardware: Hardware, gpus: Sequence[Gpu]) -> list[tuple[str, ...]]:
    """For each GPU the ids of the RDMA NICs at its smallest PCI distance."""
    declared = _declared_links(hardware)
    rdma = [nic for nic in hardware.nics if nic.rdma]
    result = []
    for gpu in gpus:
        ranked = [(_NEAREST[_pci_class(declared, gpu, nic)], nic.id) for nic in rdma]
        nearest = min(ranked, default=(5, ""))[0]
        result.append(tuple(name for rank, name in ranked if rank == nearest))
    return result


def nic_rails(hardware: Hardware, gpus: Sequence[Gpu]) -> tuple[frozenset[int], ...]:
    """For each GPU the rails of its nearest RDMA NICs; nothing at all where no NIC names its rail."""
    rail_of = {nic.id: nic.rail for nic in hardware.nics if nic.rdma and nic.rail is not None}
    if not rail_of:
        return ()
    nearest = nearest_nics(hardware, gpus)
    return tuple(frozenset(rail_of[name] for name in names if name in rail_of) for names in nearest)


def switch_groups(gpus: Sequence[Gpu], costs: Sequence[Sequence[int]]) -> list[int]:
    """A group number per GPU: GPUs below one PCI switch (PIX or PXB apart) share it."""
    return _joined(
        len(gpus),
        (
            (a, b)
            for a, b in combinations(range(len(gpus)), 2)
            if _shared_bridges(gpus[a].pcie_path, gpus[b].pcie_path) or 0 < costs[a][b] <= PCI["PXB"]
        ),
    )


@once_per_value
def pcie_switches(hardware: Hardware) -> tuple[tuple[str, ...], ...]:
    """Ids of GPUs, then of NICs, that are below one PCI switch (PIX or PXB apart); who has no such neighbour
    is alone."""
    declared = _declared_links(hardware)
    devices: list[Gpu | Nic] = [*hardware.gpus, *hardware.nics]
    groups = _joined(
        len(devices),
        (
            (a, b)
            for a, b in combinations(range(len(devices)), 2)
            if _pci_class(declared, devices[a], devices[b]) in ("PIX", "PXB")
        ),
    )
    return tuple(
        tuple(device.id for device, group in zip(devices, groups, strict=True) if group == first)
        for first in dict.fromkeys(groups)
    )


@once_per_value
def direct_links(hardware: Hardware) -> tuple[DirectLinks, ...]:
    """What NVLink or xGMI connects, most links first: GPUs that reach each other by as many links are one."""
    declared, gpus = _declared_links(hardware), hardware.gpus
    found: dict[tuple[LinkKind, int], list[tuple[int, int]]] = {}
    for a, b in combinations(range(len(gpus)), 2):
        kind, count = declared.get((gpus[a].id, gpus[b].id), ("SYS", 0))
        if kind in _DIRECT_KINDS:
            found.setdefault((kind, count), []).append((a, b))
    made = []
    for (kind, count), pairs in sorted(found.items(), key=lambda each: (-each[0][1], each[0][0])):
        groups = _joined(len(gpus), pairs)
        for first in dict.fromkeys(groups[a] for a, _ in pairs):
            part = tuple((gpus[a].id, gpus[b].id) for a, b in pairs if groups[a] == first)
            ends = dict.fromkeys(id_ for pair in part for id_ in pair)
            made.append(DirectLinks(kind, count, part, tuple(ends)))
    return tuple(made)


def _joined(count: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """For each of so many things the first of those that pairs join it with."""
    groups = list(range(count))
    for a, b in pairs:
        low, high = sorted((groups[a], groups[b]))
        groups = [low if group == high else group for group in groups]
    return groups


def _declared_links(hardware: Hardware) -> _Declared:
    table: dict[tuple[str, str], tuple[LinkKind, int]] = {}
    for link in hardware.links:
        for pair in ((link.a, link.b), (link.b, link.a)):
            known = table.get(pair)
            if known is None or known[0] not in _DIRECT_KINDS:
                table[pair] = (link.kind, link.count)
    return table


def _gpu_cost(declared: _Declared, a: Gpu, b: Gpu) -> int:
    found = declared.get((a.id, b.id))
    if found and found[0] in _DIRECT_KINDS:
        return -DIRECT * found[1]
    return PCI[found[0] if found else _infer_pci_class(a, b)]


def _pci_class(declared: _Declared, a: Gpu | Nic, b: Gpu | Nic) -> str:
    found = declared.get((a.id, b.id))
    return found[0] if found and found[0] in PCI else _infer_pci_class(a, b)


def _infer_pci_class(a: Gpu | Nic, b: Gpu | Nic) -> str:
    """The PCI class of a pair whose link was not captured, from bridges and NUMA nodes."""
    shared = _shared_bridges(a.pcie_path, b.pcie_path)
    if shared:
        near = max(len(a.pcie_path), len(b.pcie_path)) - shared <= 1
        return "PIX" if near else "PXB"
    if a.numa_node is None or b.numa_node is None:
        return "SYS"
    return "NODE" if a.numa_node == b.numa_node else "SYS"


def _shared_bridges(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the shared start of two bridge paths, not counting a root port alone."""
    length = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        length += 1
    return length if length > 1 or (length == 1 and min(len(a), len(b)) == 1) else 0
