"""Parts of devices onto devices: best fit, and where that leaves somebody out a search of arrangements."""

from __future__ import annotations

from collections.abc import Sequence

_MOST_STEPS = 2000


def arrange(parts: Sequence[int], free: Sequence[int]) -> list[int | None]:
    """The device of each part (both in milli, parts descending); None for what found none.

    The first arrangement tried is best fit; others follow until all parts have a device or as many steps were
    made as a node is worth. Then it is best fit's.
    """
    search = _Search(parts, list(free))
    if search.place_from(0):
        return list(search.chosen)
    left = list(free)
    return [_best_fit(part, left) for part in parts]


class _Search:
    def __init__(self, parts: Sequence[int], free: list[int]) -> None:
        self.chosen: list[int] = []
        self._parts, self._free, self._steps = parts, free, 0

    def place_from(self, number: int) -> bool:
        if number == len(self._parts):
            return True
        part = self._parts[number]
        equal = {left: device for device, left in reversed(list(enumerate(self._free))) if left >= part}
        for left, device in sorted(equal.items()):
            self._steps += 1
            if self._steps > _MOST_STEPS:
                return False
            self._free[device] -= part
            self.chosen.append(device)
            if self.place_from(number + 1):
                return True
            self.chosen.pop()
            self._free[device] = left
        return False


def _best_fit(part: int, left: list[int]) -> int | None:
    fitting = [(free, device) for device, free in enumerate(left) if free >= part]
    if not fitting:
        return None
    device = min(fitting)[1]
    left[device] -= part
    return device
