"""The values of whole-queue packing: classes of equal nodes and of equal requests, and what goes where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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

    @property
    def gpu_milli(self) -> int:
        return self.gpus * self.milli

    @property
    def whole(self) -> bool:
        return self.gpus > 0 and self.milli == 1000

    @property
    def part(self) -> bool:
        return self.gpus > 0 and self.milli < 1000


Fill = Mapping[int, int]
"""What one node takes: index of the request class → how many."""
Fills = Sequence[tuple[int, Fill, int]]
"""(node class, fill, number of nodes)."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work may be done, in amounts that do not depend on the machine's speed."""

    rounds: int = 36
    """Rounds of pricing; each solves one small integer program per node class."""
    pricing: float = 0.25
    """CP-SAT's deterministic time for one of them."""
    rounding: int = 300
    """Nodes of the search tree for choosing whole numbers of fills."""
    workers: int = 2
    """Threads; the answer does not depend on it."""


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
