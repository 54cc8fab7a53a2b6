"""Fragmentation gradient descent (FGD), the published policy that `benchmarks.openb` is compared with.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023. Written anew from the paper, with the rules that the published figures depend on:

- Typical requests: the pods of the trace grouped by (CPU, GPU milli, GPUs, models), most frequent first
  until they cover 95 %, pods without GPU included; each counts by its frequency. Memory only decides what
  fits.
- F of a node, by typical request: all of its free GPU milli where the request does not fit (models, CPU,
  GPUs) or asks for no GPU, else what is free on GPUs that have less than the request takes of one. F is the
  mean.
- Score of a node: floor(100 · sigmoid(−ΔF / 1000)), an integer from 0 to 100. ΔF is computed exactly, in
  integers, so that a placement that changes nothing scores 50.
- Part of a GPU goes to the GPU of the node with the best score, the first of them on a tie; whole GPUs are
  the first idle ones.
- Ties between nodes: the first of one random order, drawn once with a fixed seed. The tie rule decides
  more than the rounding: a random tie per arrival loses about five points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.openb_trace import Pod
from planner.model.types import NodeInfo

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

COVER = 0.95
NONE = -1
"""Score of a node that the pod does not fit on."""


class Kind(NamedTuple):
    """What FGD sees of a pod: milli-cores, milli of one GPU, GPUs, and the models it accepts (all where
    empty)."""

    cpu: int
    milli: int
    gpus: int
    models: frozenset[str]


class Ranked(NamedTuple):
    """Score and GPU of each node for one request; `seen` entries of the change log are taken in."""

    score: Ints
    device: Ints
    seen: int


def kind_of(pod: Pod) -> Kind:
    return Kind(pod.cpu, pod.gpu_milli if pod.gpus else 0, pod.gpus, pod.models)


def typical(pods: Sequence[Pod]) -> dict[Kind, int]:
    """The most frequent kinds that cover 95 % of the pods, and how often each occurs."""
    counts = Counter(kind_of(pod) for pod in pods)
    kept: dict[Kind, int] = {}
    for kind, count in sorted(counts.items(), key=lambda one: (-one[1], one[0][:3], sorted(one[0].models))):
        if sum(kept.values()) >= COVER * len(pods):
            break
        kept[kind] = count
    return kept


class Fgd:
    """Nodes that fill up pod by pod. `cpu[node]` milli-cores, `memory[node]` bytes and `gpu[node, device]`
    milli are what is free; `order` lists node numbers, the first wins a tie."""

    def __init__(self, nodes: Sequence[NodeInfo], pods: Sequence[Pod], seed: int = 0) -> None:
        hardware = [node.hardware for node in nodes]
        self.cpu: Ints = np.array([1000 * sum(len(numa.cpus) for numa in one.numa_nodes) for one in hardware])
        self.memory: Ints = np.array([sum(numa.memory for numa in one.numa_nodes) for one in hardware])
        self.gpu: Ints = np.zeros((len(nodes), max(len(one.gpus) for one in hardware)), dtype=np.int64)
        for at, one in enumerate(hardware):
            self.gpu[at, : len(one.gpus)] = 1000
        self.models = [one.gpus[0].model if one.gpus else "" for one in hardware]
        self.order: Ints = np.random.default_rng(seed).permutation(len(nodes))
        self._fragmentation = Fragmentation(self.models, typical(pods))
        self._ranked: dict[tuple[Kind, int], Ranked] = {}
        self._changed: list[int] = []

    def place(self, pod: Pod, _number: int = 0) -> bool:
        return self.choose(pod) is not None

    def choose(self, pod: Pod) -> tuple[int, tuple[int, ...]] | None:
        """The node that the pod was put on and its GPUs there; None if it fits nowhere."""
        ranked = self._rank(kind_of(pod), pod.memory)
        node = int(self.order[np.argmax(ranked.score[self.order])])
        if ranked.score[node] == NONE:
            return None
        devices = self._devices(kind_of(pod), node, int(ranked.device[node]))
        self.cpu[node] -= pod.cpu
        self.memory[node] -= pod.memory
        self.gpu[node, list(devices)] -= pod.gpu_milli
        self._changed.append(node)
        return node, devices

    def _devices(self, kind: Kind, node: int, best: int) -> tuple[int, ...]:
        if kind.milli < 1000:
            return (best,) * kind.gpus
        return tuple(int(at) for at in np.flatnonzero(self.gpu[node] >= 1000)[: kind.gpus])

    def _rank(self, kind: Kind, memory: int) -> Ranked:
        """Only nodes that changed since this request was last ranked are scored again."""
        before = self._ranked.get((kind, memory))
        if before is None:
            shape = len(self.models)
            before = Ranked(np.full(shape, NONE, np.int64), np.zeros(shape, np.int64), 0)
            stale = np.arange(shape)
        else:
            stale = np.unique(np.array(self._changed[before.seen :], dtype=np.int64))
        before.score[stale], before.device[stale] = self._scores(kind, memory, stale)
        self._ranked[kind, memory] = ranked = before._replace(seen=len(self._changed))
        return ranked

    def _scores(self, kind: Kind, memory: int, nodes: Ints) -> tuple[Ints, Ints]:
        score: Ints = np.full(len(nodes), NONE, dtype=np.int64)
        device: Ints = np.zeros(len(nodes), dtype=np.int64)
        fits = self._fragmentation.fits(kind, nodes, self.cpu[nodes], self.gpu[nodes])
        fits &= self.memory[nodes] >= memory
        at = np.flatnonzero(fits)
        if len(at):
            score[at], device[at] = self._best_device(kind, nodes[at])
        return score, device

    def _best_device(self, kind: Kind, nodes: Ints) -> tuple[Ints, Ints]:
        cpu, free = self.cpu[nodes], self.gpu[nodes]
        before = self._fragmentation.of(nodes, cpu, free)
        if kind.milli in {0, 1000}:
            idle = (free >= 1000) & (np.cumsum(free >= 1000, axis=1) <= kind.gpus)
            after = self._fragmentation.of(nodes, cpu - kind.cpu, free - 1000 * idle)
            return self._fragmentation.score(before - after), np.zeros(len(nodes), dtype=np.int64)
        scores = np.full(free.shape, NONE, dtype=np.int64)
        for device in range(free.shape[1]):
            at = np.flatnonzero(free[:, device] >= kind.milli)
            taken = free[at]
            taken[:, device] -= kind.milli
            after = self._fragmentation.of(nodes[at], cpu[at] - kind.cpu, taken)
            scores[at, device] = self._fragmentation.score(before[at] - after)
        return scores.max(axis=1), scores.argmax(axis=1)


class Fragmentation:
    """F of node states against typical requests, as integers: `total` times the mean of the paper."""

    def __init__(self, models: Sequence[str], kinds: dict[Kind, int]) -> None:
        self._models = np.array(models)
        self._kinds = [kind for kind in kinds if kind.gpus]
        self._weights: Ints = np.array([kinds[kind] for kind in self._kinds], dtype=np.int64)
        levels, which = np.unique([kind.milli for kind in self._kinds], return_inverse=True)
        self._levels: Ints = levels.astype(np.int64)
        self._level_of = which
        self._cpu: Ints = np.array([kind.cpu for kind in self._kinds], dtype=np.int64)
        self._gpus: Ints = np.array([kind.gpus for kind in self._kinds], dtype=np.int64)
        self._serves = np.stack(
            [self._serving(kind) for kind in self._kinds] or [np.zeros(len(models), np.bool_)], axis=1
        )[:, : len(self._kinds)]
        self.total = max(1, sum(kinds.values()))

    def _serving(self, kind: Kind) -> Flags:
        return np.isin(self._models, sorted(kind.models)) | (not kind.models)

    def fits(self, kind: Kind, nodes: Ints, cpu: Ints, free: Ints) -> Flags:
        """Whether models, CPU and GPUs suffice, by node."""
        enough: Flags = (free >= max(1, kind.milli)).sum(axis=1) >= kind.gpus
        return enough & (cpu >= kind.cpu) & self._serving(kind)[nodes]

    def of(self, nodes: Ints, cpu: Ints, free: Ints) -> Ints:
        """`total` · F of each node if it had `cpu[node]` and `free[node, device]` free."""
        large = [free >= level for level in self._levels]
        usable = np.stack([(free * one).sum(axis=1) for one in large], axis=1)[:, self._level_of]
        enough = np.stack([one.sum(axis=1) for one in large], axis=1)[:, self._level_of] >= self._gpus
        can = enough & self._serves[nodes] & (cpu[:, None] >= self._cpu)
        fragmented: Ints = self.total * free.sum(axis=1) - (usable * can) @ self._weights
        return fragmented

    def score(self, less: Ints) -> Ints:
        """0 to 100 for F falling by `less` / `total`."""
        gradient: NDArray[Any] = less / (1000 * self.total)
        score: Ints = np.floor(100 / (1 + np.exp(-gradient))).astype(np.int64)
        return score
