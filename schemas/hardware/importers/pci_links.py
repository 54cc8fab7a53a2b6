"""Links that follow from where devices sit on the PCI tree, for captures that show the tree."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.hardware.importers.facts import LinkFacts, UnreadableCapture
from schemas.hardware.sysfs.pci import PciFunction, pci_relation

MOST_DEVICES = 512
"""GPUs and NICs of one machine; each is linked with each other one."""


def unknown_function(address: str, root: str, path: Sequence[str], numa_node: int | None) -> PciFunction:
    """A PCI function of which only the place is known."""
    return PciFunction(address, 0, 0, 0, numa_node, root, tuple(path), "", False)


def pci_links(places: Sequence[tuple[str, PciFunction]], told: Sequence[LinkFacts]) -> list[LinkFacts]:
    """A link for every pair of devices (id, place) that `told` says nothing about and whose relation is
    known. Raises UnreadableCapture for more devices than any machine has."""
    if len(places) > MOST_DEVICES:
        raise UnreadableCapture(
            f"{len(places)} GPUs and NICs, more than {MOST_DEVICES}, which no machine has"
        )
    known = {frozenset((link.a, link.b)) for link in told}
    found = []
    for at, (a, here) in enumerate(places):
        for b, there in places[at + 1 :]:
            kind = pci_relation(here, there)
            if kind is not None and frozenset((a, b)) not in known:
                found.append(LinkFacts(a, b, kind))
    return found


def switched_links(counts: dict[str, int], order: Sequence[str]) -> list[LinkFacts]:
    """NVLinks through switches: a pair has as many as the one with fewer has towards the switches."""
    return [
        LinkFacts(a, b, "NV", min(counts[a], counts[b]))
        for at, a in enumerate(order)
        for b in order[at + 1 :]
        if counts.get(a) and counts.get(b)
    ]
