"""How well devices are connected, as one integer per pair: lower is better, sums over pairs compare
lexicographically.

Direct links (NVLink, xGMI) count first, by their number; then the PCI classes of `nvidia-smi topo -m`, worst
first: a set with fewer
pairs that cross sockets (SYS) wins over one with fewer pairs that cross host bridges (NODE), and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schemas.hardware.model import Gpu, Hardware, Nic

DIRECT = 1 << 40
"""Worth of one direct link, above any sum of PCI classes of up to 255 pairs."""
PCI = {"PIX": 1, "PXB": 1 << 8, "PHB": 1 << 16, "NODE": 1 << 24, "SYS": 1 << 32}
_NEAREST = {"PIX": 0, "PXB": 1, "PHB": 2, "NODE": 3, "SYS": 4}
_DIRECT_KINDS = {"NV", "XGMI"}


def pair_costs(hardware: Hardware, gpus: Sequence[Gpu]) -> list[list[int]]:
    """Square matrix of pair costs in the order of `gpus`; the diagonal is 0."""
    declared = _declared_links(hardware)
    return [[0 if a.id == b.id else _gpu_cost(declared, a, b) for b in gpus] for a in gpus]


def nic_costs(hardware: Hardware, gpus: Sequence[Gpu], among: Collection[str] | None = None) -> list[int]:
    """For each GPU the PCI distance to its nearest RDMA NIC (`among` these ids, if given), 0 (same switch) to
    4 (other socket); 5 without one."""
    declared = _declared_links(hardware)
    rdma = [nic for nic in hardware.nics if nic.rdma and (among is None or nic.id in among)]
    return [min((_NEAREST[_nic_class(declared, gpu, nic)] for nic in rdma), default=5) for gpu in gpus]


def nearest_nics(hardware: Hardware, gpus: Sequence[Gpu]) -> list[tuple[str, ...]]:
    """For each GPU the ids of the RDMA NICs at its smallest PCI distance."""
    declared = _declared_links(hardware)
    rdma = [nic for nic in hardware.nics if nic.rdma]
    result = []
    for gpu in gpus:
        ranked = [(_NEAREST[_nic_class(declared, gpu, nic)], nic.id) for nic in rdma]
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
    groups = list(range(len(gpus)))
    for a in range(len(gpus)):
        for b in range(a + 1, len(gpus)):
            same_switch = (
                bool(_shared_bridges(gpus[a].pcie_path, gpus[b].pcie_path)) or 0 < costs[a][b] <= PCI["PXB"]
            )
            if same_switch:
                low, high = sorted((groups[a], groups[b]))
                groups = [low if group == high else group for group in groups]
    return groups


def _declared_links(hardware: Hardware) -> dict[tuple[str, str], tuple[str, int]]:
    table: dict[tuple[str, str], tuple[str, int]] = {}
    for link in hardware.links:
        for pair in ((link.a, link.b), (link.b, link.a)):
            known = table.get(pair)
            if known is None or known[0] not in _DIRECT_KINDS:
                table[pair] = (link.kind, link.count)
    return table


def _gpu_cost(declared: dict[tuple[str, str], tuple[str, int]], a: Gpu, b: Gpu) -> int:
    found = declared.get((a.id, b.id))
    if found and found[0] in _DIRECT_KINDS:
        return -DIRECT * found[1]
    return PCI[found[0] if found else _infer_pci_class(a, b)]


def _nic_class(declared: dict[tuple[str, str], tuple[str, int]], gpu: Gpu, nic: Nic) -> str:
    found = declared.get((gpu.id, nic.id))
    return found[0] if found and found[0] in PCI else _infer_pci_class(gpu, nic)


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
