"""The values of whole-queue packing: classes of equal nodes and of equal requests, and what goes where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DEVICE = 1000
"""Milli of a whole device."""
_MANY = 2**40


@dataclass(frozen=True, slots=True)
class NodeClass:
    """`count` nodes with the same free capacity: idle GPUs, cpu in milli-cores, memory in bytes."""

    gpus: int
    cpu: int
    memory: int
    count: int
    model: str = ""
    """Of its GPUs; requests may be particular about it."""


@dataclass(frozen=True, slots=True)
class RequestClass:
    """`count` equal single-node requests: `gpus` devices of `milli` each (below 1000: a part of one device).

    `value` is what placing one is worth; only ratios matter. At least `required` of them must be placed.
    """

    cpu: int
    memory: int
    gpus: int
    milli: int
    count: int
    value: int
    models: frozenset[str] = frozenset()
    """GPU models that will do; empty: any."""
    required: int = 0

    def allowed_on(self, node: NodeClass) -> bool:
        return not self.models or node.model in self.models

    def most_on(self, node: NodeClass) -> int:
        """How many an empty node could take, however many there are."""
        bounds = [_MANY if self.allowed_on(node) else 0]
        bounds += [node.cpu // self.cpu] if self.cpu else []
        bounds += [node.memory // self.memory] if self.memory else []
        if self.whole:
            bounds.append(node.gpus // self.gpus)
        if self.part:
            bounds.append(node.gpus * (DEVICE // self.milli))
        return min(bounds)

    @property
    def gpu_milli(self) -> int:
        return self.gpus * self.milli

    @property
    def whole(self) -> bool:
        return self.gpus > 0 and self.milli == DEVICE

    @property
    def part(self) -> bool:
        return self.gpus > 0 and self.milli < DEVICE


def request_value(gpu_milli: int, cpu: int) -> int:
    """What placing a request is worth: GPUs first, and a core as much as a thousandth of a GPU, so that
    nobody without GPU is left out for nothing."""
    return 1000 * gpu_milli + cpu


Fill = Mapping[int, int]
"""What one node takes: index of the request class → how many."""
Fills = Sequence[tuple[int, Fill, int]]
"""(node class, fill, number of nodes)."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work may be done, in amounts that do not depend on the machine's speed."""

    rounds: int = 60
    """Rounds of pricing; each looks for one better fill per node class."""
    pricing: int = 1_500_000_000
    """Entries of knapsack tables that may be computed in all rounds together."""
    rounding: int = 300
    """Nodes of the search tree for choosing whole numbers of fills."""


@dataclass(frozen=True, slots=True)
class Packing:
    """The fills chosen, and how many of each request class are placed."""

    fills: tuple[tuple[int, Fill, int], ...]
    placed: tuple[int, ...]

    def better_than(self, other: Packing, requests: Sequence[RequestClass]) -> bool:
        """Fewer of those missing that must be placed, then more value."""
        return self._rank(requests) > other._rank(requests)

    def _rank(self, requests: Sequence[RequestClass]) -> tuple[int, int]:
        both = list(zip(requests, self.placed, strict=True))
        missing = sum(one.value * max(0, one.required - count) for one, count in both)
        return -missing, sum(one.value * count for one, count in both)
