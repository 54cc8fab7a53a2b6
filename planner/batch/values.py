"""The values of whole-queue packing: classes of equal nodes and of equal requests, and what goes where."""

from __future__ import annotations

from collections.abc import Mapping
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

    `value` is what placing one is worth; only ratios matter.
    """

    cpu: int
    memory: int
    gpus: int
    milli: int
    count: int
    value: int
    models: frozenset[str] = frozenset()
    """GPU models that will do; empty: any."""

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


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work may be done, in amounts that do not depend on the machine's speed."""

    rounds: int = 36
    """Rounds of pricing; each solves one small integer program per node class."""
    pricing: float = 0.25
    """CP-SAT's deterministic time for one of them."""
    rounding: float = 3.0
    """CP-SAT's deterministic time for choosing whole numbers of fills."""
    workers: int = 2
    """Threads; the answer does not depend on it."""


@dataclass(frozen=True, slots=True)
class Packing:
    """The fills chosen, as (node class, fill, number of nodes), and how many of each class are placed."""

    fills: tuple[tuple[int, Fill, int], ...]
    placed: tuple[int, ...]
