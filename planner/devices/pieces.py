"""Parts of devices: which ones carry a fractional request.

`fill` takes whole devices and one part of a further one; `even` takes equal pieces (differing by at most one
quantum) of as few devices
as will do. A request of at most one device sits on one device. The part goes where it leaves the least
behind.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from planner.model.demand import Share
from planner.model.device_family import Family, Want, bits


class Pieces(NamedTuple):
    """A choice: `rank` compares (lower is better), `grants` are (device, milli), ascending."""

    rank: tuple[int, ...]
    grants: tuple[tuple[int, int], ...]


class Wish(NamedTuple):
    """What a kernel wants of its devices, see `Family.best`."""

    even: bool
    nic: bool
    joined: bool = False
    rails: tuple[int, ...] = ()


def choose(
    family: Family, free: int, part: Mapping[int, int], allowed: int, share: Share, wish: Wish
) -> Pieces | None:
    """The best pieces among the devices in `allowed`. `free`: untouched devices; `part`: device → free
    milli.
    """
    whole, rest = divmod(share.milli, 1000)
    if share.spread == "even" and whole and rest:
        return _even(family, free, part, allowed, share, wish)
    if rest == 0:
        chosen = family.best(Want(allowed, free, whole, wish.even, wish.nic, 0, wish.joined, wish.rails))
        if chosen is None:
            return None
        rank = family.rank(chosen, free, wish.even, wish.nic, wish.rails)[:3]
        return Pieces((*rank, 0, 0), tuple((at, 1000) for at in bits(chosen)))
    found = [
        _fill(family, free, allowed, whole, rest, device, left, wish)
        for device, left in _holders(free, part, allowed, rest)
    ]
    return min((one for one in found if one is not None), default=None)


def _holders(free: int, part: Mapping[int, int], allowed: int, milli: int) -> Iterator[tuple[int, int]]:
    """Devices with room for a piece, and how much they have."""
    for device, left in part.items():
        if left >= milli and allowed >> device & 1:
            yield device, left
    for device in bits(free & allowed):
        yield device, 1000


def _fill(
    family: Family,
    free: int,
    allowed: int,
    whole: int,
    rest: int,
    device: int,
    left: int,
    wish: Wish,
) -> Pieces | None:
    untouched, own = free & ~(1 << device), 1 << device
    chosen = family.best(Want(allowed, untouched, whole, wish.even, wish.nic, own, wish.joined, wish.rails))
    if chosen is None:
        return None
    grants = tuple(sorted([(at, 1000) for at in bits(chosen)] + [(device, rest)]))
    return Pieces(_rank(family, free, chosen | own, wish, left - rest, left == 1000), grants)


def _rank(family: Family, free: int, chosen: int, wish: Wish, left: int, opened: int) -> tuple[int, ...]:
    """Connection first, then as few newly opened devices and as little left over on them as possible."""
    spread, link, near, *after, mask = family.rank(chosen, free, wish.even, wish.nic, wish.rails)
    return (spread, link, near, int(opened), left, *after, mask)


def _even(
    family: Family, free: int, part: Mapping[int, int], allowed: int, share: Share, wish: Wish
) -> Pieces | None:
    holders = dict(_holders(free, part, allowed, 1))
    for count in range(-(-share.milli // 1000), len(holders) + 1):
        found = [
            pieces
            for devices in itertools.combinations(sorted(holders), count)
            if (pieces := _equal(family, free, holders, devices, share, wish)) is not None
        ]
        if found:
            return min(found)
    return None


def _equal(
    family: Family,
    free: int,
    holders: Mapping[int, int],
    devices: tuple[int, ...],
    share: Share,
    wish: Wish,
) -> Pieces | None:
    """Pieces on exactly these devices, the larger ones where most is free."""
    steps, more = divmod(share.milli // share.quantum, len(devices))
    roomiest = sorted(devices, key=lambda device: (-holders[device], device))
    grants = [(device, (steps + (at < more)) * share.quantum) for at, device in enumerate(roomiest)]
    if any(milli == 0 or holders[device] < milli for device, milli in grants):
        return None
    opened = sum(holders[device] == 1000 for device in devices)
    left = sum(holders[device] - milli for device, milli in grants)
    mask = sum(1 << device for device in devices)
    if wish.joined and not family.joined(mask):
        return None
    return Pieces(_rank(family, free, mask, wish, left, opened), tuple(sorted(grants)))
