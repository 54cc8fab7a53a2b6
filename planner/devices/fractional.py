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

from planner.model.demand import DeviceShare
from planner.model.device_family import DeviceFamily, DeviceQuery, bits


class PartChoice(NamedTuple):
    """A choice: `rank` compares (lower is better), `grants` are (device, milli), ascending."""

    rank: tuple[int, ...]
    grants: tuple[tuple[int, int], ...]


class DevicePreferences(NamedTuple):
    """What a kernel wants of its devices, see `DeviceFamily.best`."""

    even: bool
    nic: bool
    joined: bool = False
    rails: tuple[int, ...] = ()

    def query(self, allowed: int, free: int, k: int, beside: int = 0) -> DeviceQuery:
        """Which `k` of these devices it wants."""
        return DeviceQuery(allowed, free, k, self.even, self.nic, beside, self.joined, self.rails)


def choose_parts(
    family: DeviceFamily,
    free: int,
    part: Mapping[int, int],
    allowed: int,
    share: DeviceShare,
    preferences: DevicePreferences,
) -> PartChoice | None:
    """The best pieces among the devices in `allowed`. `free`: untouched devices; `part`: device → free
    milli.
    """
    whole, rest = divmod(share.milli, 1000)
    if share.spread == "even" and whole and rest:
        return _even_parts(family, free, part, allowed, share, preferences)
    if rest == 0:
        chosen = family.best(preferences.query(allowed, free, whole))
        if chosen is None:
            return None
        rank = family.rank(chosen, free, preferences.even, preferences.nic, preferences.rails)[:3]
        return PartChoice((*rank, 0, 0), tuple((at, 1000) for at in bits(chosen)))
    found = [
        _fill_parts(family, free, allowed, share, device, left, preferences)
        for device, left in _devices_with_room(free, part, allowed, rest)
    ]
    return min((one for one in found if one is not None), default=None)


def _devices_with_room(
    free: int, part: Mapping[int, int], allowed: int, milli: int
) -> Iterator[tuple[int, int]]:
    """Devices with room for a piece, and how much they have."""
    for device, left in part.items():
        if left >= milli and allowed >> device & 1:
            yield device, left
    for device in bits(free & allowed):
        yield device, 1000


def _fill_parts(
    family: DeviceFamily,
    free: int,
    allowed: int,
    share: DeviceShare,
    device: int,
    left: int,
    preferences: DevicePreferences,
) -> PartChoice | None:
    """The part on this device, which has `left` milli free, and whole ones beside it."""
    whole, rest = divmod(share.milli, 1000)
    untouched, own = free & ~(1 << device), 1 << device
    chosen = family.best(preferences.query(allowed, untouched, whole, own))
    if chosen is None:
        return None
    grants = tuple(sorted([(at, 1000) for at in bits(chosen)] + [(device, rest)]))
    return PartChoice(_rank(family, free, chosen | own, preferences, left - rest, left == 1000), grants)


def _rank(
    family: DeviceFamily, free: int, chosen: int, preferences: DevicePreferences, left: int, opened: int
) -> tuple[int, ...]:
    """Connection first, then as few newly opened devices and as little left over on them as possible."""
    spread, link, near, *after, mask = family.rank(
        chosen, free, preferences.even, preferences.nic, preferences.rails
    )
    return (spread, link, near, int(opened), left, *after, mask)


def _even_parts(
    family: DeviceFamily,
    free: int,
    part: Mapping[int, int],
    allowed: int,
    share: DeviceShare,
    preferences: DevicePreferences,
) -> PartChoice | None:
    holders = dict(_devices_with_room(free, part, allowed, 1))
    for count in range(-(-share.milli // 1000), len(holders) + 1):
        found = [
            pieces
            for devices in itertools.combinations(sorted(holders), count)
            if (pieces := _equal_parts(family, free, holders, devices, share, preferences)) is not None
        ]
        if found:
            return min(found)
    return None


def _equal_parts(
    family: DeviceFamily,
    free: int,
    holders: Mapping[int, int],
    devices: tuple[int, ...],
    share: DeviceShare,
    preferences: DevicePreferences,
) -> PartChoice | None:
    """Pieces on exactly these devices, the larger ones where most is free."""
    steps, more = divmod(share.milli // share.quantum, len(devices))
    roomiest = sorted(devices, key=lambda device: (-holders[device], device))
    grants = [(device, (steps + (at < more)) * share.quantum) for at, device in enumerate(roomiest)]
    if any(milli == 0 or holders[device] < milli for device, milli in grants):
        return None
    opened = sum(holders[device] == 1000 for device in devices)
    left = sum(holders[device] - milli for device, milli in grants)
    mask = sum(1 << device for device in devices)
    if preferences.joined and not family.joined(mask):
        return None
    return PartChoice(_rank(family, free, mask, preferences, left, opened), tuple(sorted(grants)))
