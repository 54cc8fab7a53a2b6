"""Huge pages of one node: how many bytes of which size there are on which NUMA domain, and who has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from planner.model import slots
from schemas.hardware.model import NumaNode


@dataclass(frozen=True, slots=True)
class PageGrant:
    """Huge pages of one size and NUMA node. `node`: None where nobody knows it."""

    slot: str
    node: int | None
    bytes: int


PagesByDomain = tuple[tuple[int, ...], ...]
"""Bytes of each size that a machine has, per domain."""


def bytes_by_slot(grants: Iterable[PageGrant]) -> dict[str, int]:
    return slots.total({grant.slot: grant.bytes} for grant in grants)


def whole_pages(amount: int, slot: str) -> int:
    """As many bytes, or the few more that make whole pages."""
    size = slots.PAGES[slot]
    return -(-max(0, amount) // size) * size


def pages_of(nodes: Sequence[NumaNode | None]) -> dict[str, tuple[int, ...]]:
    """By slot, as many whole pages as each domain has, in bytes; None: one whose memory nobody is given."""
    found = {}
    for slot, size in slots.PAGES.items():
        name = slot.removeprefix(slots.HUGEPAGES)
        amounts = [
            sum(amount for size_of, amount in node.hugepages.items() if size_of == name) if node else 0
            for node in nodes
        ]
        found[slot] = tuple(amount // size * size for amount in amounts)
    return {slot: amounts for slot, amounts in found.items() if any(amounts)}


def hold_pages(
    kinds: Iterable[str], domains: Sequence[int], free: PagesByDomain, grants: Sequence[PageGrant]
) -> tuple[PagesByDomain, list[str]]:
    """What is free of these `kinds` once the grants are taken, and in words what of them there is not. Those
    of no known NUMA node are taken last, and wherever there are any."""
    if not grants:
        return free, []
    left, unknown = {slot: list(amounts) for slot, amounts in zip(kinds, free, strict=True)}, []
    for grant in sorted(grants, key=lambda each: each.node is None):
        if grant.slot not in left:
            unknown.append(grant.slot)
        elif grant.node in domains:
            left[grant.slot][domains.index(grant.node)] -= grant.bytes
        else:
            _take_anywhere(left[grant.slot], grant.bytes)
    return tuple(map(tuple, left.values())), unknown


def _take_anywhere(free: list[int], amount: int) -> None:
    for at, there in enumerate(free):
        taken = min(amount, max(0, there))
        free[at] -= taken
        amount -= taken
    free[0] -= amount


def room_of(kinds: Iterable[str], free: PagesByDomain) -> Mapping[str, tuple[int, ...]]:
    """By slot and domain; nothing where more is recorded than there is."""
    return {slot: tuple(max(0, each) for each in amounts) for slot, amounts in zip(kinds, free, strict=True)}
