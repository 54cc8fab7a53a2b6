"""One request after another onto the node where it strands least: a packing's start, and its last crumbs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.batch.arrangement import arrange
from planner.batch.values import DEVICE, Fill, NodeClass, RequestClass

Floats = NDArray[np.float64]
_INFEASIBLE = 9e15


class Bins:
    """All nodes one by one; an idle GPU needs `cpu_per_gpu` and `memory_per_gpu` beside it to be of use."""

    def __init__(self, nodes: Sequence[NodeClass], cpu_per_gpu: float, memory_per_gpu: float) -> None:
        kinds = [kind for kind, node in enumerate(nodes) for _ in range(node.count)]
        self._nodes = nodes
        self.kind = np.array(kinds, np.int64)
        self.cpu: Floats = np.array([nodes[kind].cpu for kind in kinds], np.float64)
        self.memory: Floats = np.array([nodes[kind].memory for kind in kinds], np.float64)
        widest = max((node.gpus for node in nodes), default=0)
        free = [[1000 if at < nodes[kind].gpus else 0 for at in range(widest)] for kind in kinds]
        self.free = np.array(free, np.int64).reshape(len(kinds), widest)
        self.fills: list[dict[int, int]] = [{} for _ in self.kind]
        self._needs = (max(cpu_per_gpu, 1.0), max(memory_per_gpu, 1.0))

    def preload(self, at: int, fill: Fill, requests: Sequence[RequestClass]) -> Counter[int]:
        """Put a fill on one empty node, wholes first, then parts from the largest; gives what went in. Parts
        for which no arrangement on its devices was found are left out."""
        every = [which for which, count in fill.items() for _ in range(count)]
        parts = sorted((one for one in every if requests[one].part), key=lambda one: -requests[one].milli)
        placed = Counter(one for one in every if not requests[one].part)
        for which in placed.elements():
            self._assign(at, which, requests[which])
        devices = arrange([requests[one].milli for one in parts], self.free[at].tolist())
        for which, device in zip(parts, devices, strict=True):
            if device is not None:
                self._assign(at, which, requests[which], device)
                placed[which] += 1
        return placed

    def clear(self, at: int) -> None:
        """Take everything off one node."""
        node = self._nodes[int(self.kind[at])]
        self.cpu[at], self.memory[at] = node.cpu, node.memory
        self.free[at, : node.gpus] = 1000
        self.fills[at] = {}

    def insert(self, which: int, request: RequestClass) -> bool:
        """Put one request where it strands least; False when it fits nowhere."""
        if not len(self.kind):
            return False
        fits = (self.cpu >= request.cpu) & (self.memory >= request.memory)
        if request.models:
            fits &= np.array([request.allowed_on(node) for node in self._nodes])[self.kind]
        idle = self.free.sum(axis=1)
        score = self._stranded(idle - request.gpu_milli, self.cpu - request.cpu, self.memory - request.memory)
        score -= self._stranded(idle, self.cpu, self.memory)
        if request.whole:
            fits &= (self.free == 1000).sum(axis=1) >= request.gpus
        elif request.part:
            rest = self._rest_on_device(request.milli)
            fits &= rest < _INFEASIBLE
            score += np.minimum(rest, 1000)
        score += 1e-3 * idle
        if not fits.any():
            return False
        self._assign(int(np.argmin(np.where(fits, score, _INFEASIBLE))), which, request)
        return True

    def _stranded(self, idle: Floats | NDArray[np.int64], cpu: Floats, memory: Floats) -> Floats:
        by_cpu, by_memory = self._needs
        return np.maximum(0, idle - 1000 * cpu / by_cpu) + np.maximum(0, idle - 1000 * memory / by_memory)

    def _rest_on_device(self, milli: int) -> Floats:
        if not self.free.shape[1]:
            return np.full(len(self.kind), _INFEASIBLE)
        rest: Floats = np.where(self.free >= milli, self.free - milli, _INFEASIBLE).min(axis=1)
        return rest

    def _assign(self, at: int, which: int, request: RequestClass, device: int | None = None) -> None:
        """`device`: for a part; the one that it fits best when left out."""
        self.cpu[at] -= request.cpu
        self.memory[at] -= request.memory
        row = self.free[at]
        if request.whole:
            row[np.flatnonzero(row == DEVICE)[: request.gpus]] = 0
        elif request.part:
            rest = np.where(row >= request.milli, row - request.milli, _INFEASIBLE)
            row[int(np.argmin(rest)) if device is None else device] -= request.milli
        self.fills[at][which] = self.fills[at].get(which, 0) + 1


def largest_first(requests: Sequence[RequestClass]) -> list[int]:
    """Indexes, those hardest to place first: many GPUs, whole ones, large parts, then by cpu."""
    return sorted(range(len(requests)), key=lambda at: _size(requests[at]))


def _size(request: RequestClass) -> tuple[int, ...]:
    rank = 0 if request.gpus > 1 else 1 if request.whole else 2 if request.part else 3
    return (rank, -request.gpus, -request.milli, -request.cpu, -request.memory)


def insert_greedily(
    bins: Bins, requests: Sequence[RequestClass], left: Iterable[tuple[int, int]]
) -> list[int]:
    """Insert (class, count) pairs in the given order; gives how many of each class went in."""
    placed = [0] * len(requests)
    for which, count in left:
        for _ in range(count):
            if not bins.insert(which, requests[which]):
                break
            placed[which] += 1
    return placed


def fits_on_empty_node(node: NodeClass, fill: Fill, requests: Sequence[RequestClass]) -> bool:
    """Whether one empty node takes all of it, the largest first."""
    order = [(at, fill[at]) for at in largest_first(requests) if fill.get(at)]
    alone = Bins([replace(node, count=1)], 1, 1)
    return sum(insert_greedily(alone, requests, order)) == sum(fill.values())
