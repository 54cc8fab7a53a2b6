"""The kinds of GPU request that sessions make, and how often each occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from planner.model.demand import Demand


class RequestKind(NamedTuple):
    """A request of one container. `devices` whole ones, or `milli` of one; `cpu` milli-cores; `memory`
    bytes."""

    cpu: int
    memory: int
    devices: int
    milli: int
    models: frozenset[str]

    @property
    def demand(self) -> int:
        """Milli-devices."""
        return self.devices * self.milli


def count_request_kinds(demands: Iterable[tuple[Demand, frozenset[str]]]) -> dict[RequestKind, int]:
    """How often each kind of GPU request occurs, most frequent first. Memory is averaged within a kind."""
    counts: Counter[RequestKind] = Counter()
    memory: Counter[RequestKind] = Counter()
    for demand, models in demands:
        for devices, milli in _device_parts(demand):
            kind = RequestKind(1000 * demand.cores + demand.milli, 0, devices, milli, models)
            counts[kind] += 1
            memory[kind] += demand.memory
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0][:4], sorted(one[0].models)))
    return {kind._replace(memory=memory[kind] // count): count for kind, count in ordered}


def _device_parts(demand: Demand) -> Iterable[tuple[int, int]]:
    for slot, count in demand.whole:
        if slot.endswith(".device"):
            yield count, 1000
    for share in demand.shares:
        whole, rest = divmod(share.milli, 1000)
        yield (whole + bool(rest), 1000) if whole else (1, rest)
