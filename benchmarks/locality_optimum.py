"""What the best mapping of a request on one machine would be, found by trying all of them.

The machine's free cores, memory and devices are counted here from what the planner handed out, not taken from
the planner's own books. Every set of NUMA nodes is tried in order of size and distance, and on it every set
of devices that can carry the request; nothing is remembered between requests.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.model.topology import Topology
from planner.model.types import KernelPlacement

Ints = npt.NDArray[np.int64]
Quality = tuple[int, int, int]
"""(NUMA nodes, sum of their distances, cost of the links between the devices): lower is better."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of one container: whole cores, bytes, and either whole devices or milli of one and more."""

    cores: int
    memory: int
    whole: int = 0
    milli: int = 0


class Machine:
    """One machine's books: what is free, by NUMA domain and device (of the `.device` slot)."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        isolated = set(topology.hardware.isolated_cpus)
        self.domain_of_cpu = {cpu: at for at, one in enumerate(topology.nodes) for cpu in one.cpus}
        usable = [core for core in topology.cores if not isolated & set(core)]
        self.cores = [0] * len(topology.domains)
        for core in usable:
            self.cores[self.domain_of_cpu[core[0]]] += 1
        self.memory = list(topology.memory)
        family = next((one for one in topology.families if one.slot.endswith(".device")), None)
        self.family = family
        healthy = {gpu.id for gpu in topology.hardware.gpus if gpu.healthy}
        self.free = [1000 * (name in healthy) for name in family.ids] if family else []
        self._costs: Ints = np.array(family.costs if family else [], dtype=np.int64)

    @property
    def devices(self) -> int:
        return len(self.free)

    def change(self, placed: KernelPlacement, sign: int) -> None:
        """Take a placement's resources (`sign` -1) or give them back (1)."""
        cores = {self.topology.core_of[cpu] for cpu in placed.cpus}
        for core in cores:
            self.cores[self.domain_of_cpu[self.topology.cores[core][0]]] += sign
        for part in placed.parts:
            self.memory[self.topology.domains.index(part.node)] += sign * part.memory
        for grant in placed.devices:
            assert self.family is not None
            self.free[self.family.ids.index(grant.id)] += sign * grant.milli

    def quality(self, placed: KernelPlacement) -> Quality:
        """How good a placement is: over the NUMA domains of its cores, memory and devices."""
        touched = {self.domain_of_cpu[cpu] for cpu in placed.cpus}
        touched |= {self.topology.domains.index(part.node) for part in placed.parts if part.memory}
        chosen: list[int] = []
        if self.family is not None:
            chosen = [self.family.ids.index(grant.id) for grant in placed.devices]
            touched |= {self.family.domains[at] for at in chosen} - {-1}
        link = sum(int(self._costs[a][b]) for a, b in itertools.combinations(chosen, 2))
        return (max(1, len(touched)), self._distance(sorted(touched)), link)

    def optimum(self, ask: Ask) -> Quality | None:
        """The best quality that any mapping has now; None when there is none."""
        every = range(len(self.topology.domains))
        for size in range(1, len(every) + 1):
            best: Quality | None = None
            sets = (one for one in itertools.combinations(every, size) if self._carries(one, ask))
            for domains in sets:
                link = self._best_link(domains, ask)
                if link is not None:
                    found = (size, self._distance(domains), link)
                    best = found if best is None or found < best else best
            if best is not None:
                return best
        return None

    def _carries(self, domains: Sequence[int], ask: Ask) -> bool:
        cores, memory = sum(self.cores[at] for at in domains), sum(self.memory[at] for at in domains)
        return cores >= ask.cores and memory >= ask.memory

    def _best_link(self, domains: Sequence[int], ask: Ask) -> int | None:
        if not ask.whole and not ask.milli:
            return 0
        if self.family is None:
            return None
        on = [at for at, home in enumerate(self.family.domains) if home == -1 or home in domains]
        best = None
        for chosen in self._sets(on, ask):
            if not len(chosen):
                continue
            costs: Ints = np.zeros(len(chosen), dtype=np.int64)
            for a, b in itertools.combinations(range(chosen.shape[1]), 2):
                costs += self._costs[chosen[:, a], chosen[:, b]]
            best = int(costs.min()) if best is None else min(best, int(costs.min()))
        return best

    def _sets(self, on: Sequence[int], ask: Ask) -> Iterator[Ints]:
        """All sets of devices that can carry the request, as rows."""
        idle = [at for at in on if self.free[at] == 1000]
        whole, rest = (ask.whole, 0) if ask.whole else divmod(ask.milli, 1000)
        if not rest:
            yield _rows(itertools.combinations(idle, whole), whole)
            return
        for last in (at for at in on if self.free[at] >= rest):
            others = [at for at in idle if at != last]
            yield _rows(((*one, last) for one in itertools.combinations(others, whole)), whole + 1)

    def _distance(self, domains: Sequence[int]) -> int:
        return sum(self.topology.distance(a, b) for a, b in itertools.combinations(domains, 2))


def _rows(sets: Iterator[tuple[int, ...]], width: int) -> Ints:
    return np.array(list(sets), dtype=np.int64).reshape(-1, width)
