"""What one node's devices and cores are worth at given prices: knapsack tables over rounded amounts.

A table by (thousandths, cpu) gives the best parts to share one device (unbounded knapsack; Kellerer, Pferschy
and Pisinger, 2004, chapter 8), a table by (devices, cpu) puts such devices and requests for whole ones side
by side, and a last row adds requests without devices. Amounts are rounded up to the tables' steps, so that
what is found is always possible; memory and how many there are of each are the caller's to see to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.batch.values import DEVICE

_CPU_STEPS = 1000
_DEVICE_STEPS = 100
_NEVER = -(2**62)

Ints = NDArray[np.int64]
Marks = NDArray[np.int32]


class Item(NamedTuple):
    """One request class on offer: milli-cores, devices, milli of each, and what one of it is worth."""

    which: int
    cpu: int
    gpus: int
    milli: int
    gain: int

    @property
    def part(self) -> bool:
        return self.gpus > 0 and self.milli < DEVICE


class _Table(NamedTuple):
    """The best worth by steps, cpu last, and the item that was added last for it (-1: none)."""

    worth: Ints
    last: Marks


class FillTables:
    """The tables of a node with `cpu` milli-cores and `gpus` devices, for these items."""

    def __init__(self, cpu: int, gpus: int, items: Sequence[Item]) -> None:
        step = max(1, -(-cpu // _CPU_STEPS))
        rounded = [one._replace(cpu=max(not one.gpus, -(-one.cpu // step))) for one in items]
        self._steps, self._gpus = cpu // step, gpus
        self._items = [one for one in rounded if one.cpu <= self._steps and one.gpus <= gpus]
        self.entries = 0
        """Of tables, that were computed: the work done, whatever the machine's speed."""
        self._shared = self._share_device()
        self._worth, self._source = self._put_devices_side_by_side()
        self._all = self._add_without_devices()

    def best(self) -> Iterator[tuple[int, ...]]:
        """What makes the most of the node: the classes of each device that is shared, and everybody else
        alone."""
        left = int(np.argmax(self._all.worth))
        while (at := int(self._all.last[left])) >= 0:
            yield (self._items[at].which,)
            left -= self._items[at].cpu
        devices = self._gpus
        while devices:
            mark = int(self._source[devices, left])
            if mark > 0:
                one = self._items[mark - 1]
                yield (one.which,)
                devices, left = devices - one.gpus, left - one.cpu
            else:
                yield tuple(self._parts(-mark))
                devices, left = devices - 1, left + mark

    def _parts(self, cpu: int) -> Iterator[int]:
        row = int(np.argmax(self._shared.worth[:, cpu]))
        while (at := int(self._shared.last[row, cpu])) >= 0:
            one = self._items[at]
            yield one.which
            row, cpu = row - _device_steps(one), cpu - one.cpu

    def _share_device(self) -> _Table:
        """By device steps and cpu steps, both as taken exactly."""
        parts = [(at, one) for at, one in enumerate(self._items) if one.part]
        widest = max((-(-one.cpu * _DEVICE_STEPS // _device_steps(one)) for _, one in parts), default=0)
        worth = np.full((_DEVICE_STEPS + 1, min(self._steps, widest) + 1), _NEVER, np.int64)
        last = np.full(worth.shape, -1, np.int32)
        worth[0, 0] = 0
        for at, one in parts:
            tall = _device_steps(one)
            for low in range(tall, _DEVICE_STEPS + 1, tall):
                rows, before = slice(low, low + tall), slice(low - tall, min(low, _DEVICE_STEPS + 1 - tall))
                self._add(worth[rows], last[rows], worth[before], one, at)
        return _Table(worth, last)

    def _put_devices_side_by_side(self) -> tuple[Ints, Marks]:
        """By devices and cpu steps at most; where from: item + 1, or minus the cpu of a shared device."""
        worth = np.zeros((self._gpus + 1, self._steps + 1), np.int64)
        source = np.zeros(worth.shape, np.int32)
        wholes = [(at, one) for at, one in enumerate(self._items) if one.gpus and not one.part]
        shared = [Item(-1, cpu, 1, DEVICE, gain) for cpu, gain in _rises(self._shared.worth.max(axis=0))]
        for devices in range(1, self._gpus + 1):
            row, mark = worth[devices], source[devices]
            row[:] = worth[devices - 1]
            for at, one in wholes:
                if one.gpus <= devices:
                    self._add(row, mark, worth[devices - one.gpus], one, at + 1)
            for one in shared:
                self._add(row, mark, worth[devices - 1], one, -one.cpu)
        return worth, source

    def _add_without_devices(self) -> _Table:
        worth = self._worth[self._gpus].copy()
        last = np.full(worth.shape, -1, np.int32)
        for at, one in enumerate(self._items):
            if not one.gpus:
                width = max(1, one.cpu)
                for low in range(width, len(worth), width):
                    here = slice(low, low + width)
                    before = slice(low - width, min(low, len(worth) - width))
                    self._add(worth[here], last[here], worth[before], one._replace(cpu=0), at)
        return _Table(worth, last)

    def _add(self, worth: Ints, last: Marks, before: Ints, one: Item, mark: int) -> None:
        """Take `before` with the item where that is worth more."""
        size = worth.shape[-1] - one.cpu
        if size <= 0:
            return
        added = before[..., :size] + one.gain
        better = added > worth[..., one.cpu :]
        np.copyto(worth[..., one.cpu :], added, where=better)
        np.copyto(last[..., one.cpu :], np.int32(mark), where=better)
        self.entries += added.size


def _device_steps(one: Item) -> int:
    return -(-one.milli * _DEVICE_STEPS // DEVICE)


def _rises(worth: Ints) -> list[tuple[int, int]]:
    """(cpu, worth) where more cpu is worth more."""
    best = np.maximum.accumulate(worth)
    return [(int(cpu), int(best[cpu])) for cpu in np.flatnonzero(np.diff(best, prepend=0) > 0)]
