"""All devices of one slot on one machine, and which k of them to take.

Up to 16 devices every subset has its figures in arrays, made once per topology class; beyond, devices that
cannot be told apart are
counted instead of listed. Both give the same answer: the lexicographic minimum of `DeviceFamily.rank`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

TABLE_LIMIT = 16
_MEMO_LIMIT = 200_000

Ints = npt.NDArray[np.int64]
Rank = tuple[int, ...]
Rails = tuple[int, ...]
_NEAR = 128
"""Weight of one step of NIC distance over the number of devices off their rail."""


class DeviceQuery(NamedTuple):
    """Which devices are looked for: `k` of `allowed`, all of them free.

    `even`: spread over the NUMA domains. `nic`: near to NICs. `beside`: devices that the same kernel takes as
    well, so that links to them count. `joined`: only sets that direct links join. `rails`: of NICs as near,
    those of these rails are better.
    """

    allowed: int
    free: int
    k: int
    even: bool
    nic: bool
    beside: int = 0
    joined: bool = False
    rails: Rails = ()


def bits(mask: int) -> Iterator[int]:
    """Positions of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def union_of(masks: Iterable[int]) -> int:
    """The union of bit masks."""
    found = 0
    for mask in masks:
        found |= mask
    return found


def mask_of(positions: Sequence[int]) -> int:
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


class DeviceLinks(NamedTuple):
    """How well the devices of a family are connected. Made by the topology from a machine's links; read by
    the family."""

    costs: Sequence[Sequence[int]]
    """`costs[a][b]`: of the link between two devices; below 0: a direct one."""
    groups: Sequence[int]
    """A number for each; those below one PCI switch, or of one GPU, have the same."""
    nics: Sequence[int]
    """How far the nearest NIC is from each."""
    rails: Sequence[frozenset[int]] = ()
    """Rails of the NICs next to each; empty where not known."""


class DeviceFamily:
    """The devices of one slot. `domains[i]` is the NUMA domain index of device i, or -1 when unknown."""

    def __init__(
        self,
        slot: str,
        ids: tuple[str, ...],
        domains: tuple[int, ...],
        links: DeviceLinks,
    ) -> None:
        costs, groups = links.costs, links.groups
        self.slot, self.ids, self.domains = slot, ids, domains
        self.costs, self.groups, self.nics = costs, tuple(groups), tuple(links.nics)
        self.rails = tuple(links.rails)
        self._linked = tuple(mask_of([b for b, cost in enumerate(row) if cost < 0]) for row in costs)
        self.all = (1 << len(ids)) - 1
        self.count = max(domains, default=-1) + 1
        self.anywhere = mask_of([at for at, domain in enumerate(domains) if domain < 0])
        self.in_domain = tuple(
            mask_of([at for at, one in enumerate(domains) if one == domain]) for domain in range(self.count)
        )
        self._group_masks = tuple(
            mask_of([at for at, one in enumerate(groups) if one == group]) for group in sorted(set(groups))
        )
        self._domain_masks = self.in_domain + ((self.anywhere,) if self.anywhere else ())
        self._best: dict[DeviceQuery, int | None] = {}
        self._figures_cache: dict[int, tuple[int, int, int, int, int]] = {}

    def within(self, domains: Sequence[int]) -> int:
        """Devices on any of these NUMA domains, those of unknown domain included."""
        mask = self.anywhere
        for domain in domains:
            if domain < self.count:
                mask |= self.in_domain[domain]
        return mask

    def link_cost(self, mask: int) -> int:
        return self._set_figures(mask)[0]

    def domains_of(self, mask: int) -> frozenset[int]:
        """Known NUMA domains that these devices sit on."""
        return frozenset(self.domains[at] for at in bits(mask) if self.domains[at] >= 0)

    def joined(self, mask: int) -> bool:
        """Whether direct links lead from each of these devices to each other, over none but these."""
        reached, more = mask & -mask, True
        while more:
            beside = union_of(self._linked[at] for at in bits(reached)) & mask
            more = bool(beside & ~reached)
            reached |= beside
        return reached == mask

    def rails_of(self, mask: int) -> frozenset[int]:
        """The rails that these devices are next to."""
        return frozenset().union(*(self.rails[at] for at in bits(mask))) if self.rails else frozenset()

    def off_rail(self, mask: int, rails: Rails) -> int:
        """How many of these devices are next to none of the rails."""
        return sum(self._is_off_rail(at, rails) for at in bits(mask)) if rails and self.rails else 0

    def _is_off_rail(self, at: int, rails: Rails) -> int:
        return int(bool(self.rails[at]) and self.rails[at].isdisjoint(rails))

    def rank(self, chosen: int, free: int, even: bool, nic: bool, rails: Rails = ()) -> Rank:
        """What is compared when devices `chosen` are taken out of `free`: lower is better."""
        link, near, spread, _, _ = self._set_figures(chosen)
        left_link, _, _, blocks, packed = self._set_figures(free & ~chosen)
        near = _NEAR * near + self.off_rail(chosen, rails) if nic else 0
        return (spread if even else 0, link, near, -blocks, -packed, left_link, chosen)

    def best(self, query: DeviceQuery) -> int | None:
        """The best devices, as a mask; None when there are fewer than wanted."""
        query = query._replace(allowed=query.allowed & query.free)
        if query.allowed.bit_count() < query.k:
            return None
        if query.k == 0:
            return 0
        if query not in self._best:
            if len(self._best) >= _MEMO_LIMIT:
                self._best.clear()
            small = len(self.ids) <= TABLE_LIMIT
            self._best[query] = self._by_table(query) if small else self._by_counting(query)
        return self._best[query]

    def _by_table(self, query: DeviceQuery) -> int | None:
        table = self._table
        found = table.subsets[((table.subsets & ~query.allowed) == 0) & (table.population == query.k)]
        if query.joined:
            found = found[self._all_joined(found | query.beside)]
        if not len(found):
            return None
        taken = found | query.beside
        left = query.free & ~taken
        criteria = [table.spread[taken]] if query.even else []
        criteria.append(table.link[taken])
        criteria += [table.near[taken]] if query.nic else []
        if query.nic and query.rails and self.rails:
            criteria.append(
                _subset_sums([self._is_off_rail(at, query.rails) for at in range(len(self.ids))])[taken]
            )
        criteria += [-table.blocks[left], -table.packed[left], table.link[left]]
        keep = np.arange(len(found))
        for values in criteria:
            kept = values[keep]
            keep = keep[kept == kept.min()]
            if len(keep) == 1:
                break
        return int(found[keep].min())

    def _all_joined(self, masks: Ints) -> npt.NDArray[np.bool_]:
        """`joined` of many masks at once."""
        reached: Ints = masks & -masks
        for _ in self.ids:
            beside = np.zeros_like(masks)
            for at, linked in enumerate(self._linked):
                beside |= (reached >> at & 1) * linked
            reached |= beside & masks
        result: npt.NDArray[np.bool_] = reached == masks
        return result

    def _by_counting(self, query: DeviceQuery) -> int | None:
        allowed = [[at for at in one if query.allowed >> at & 1] for one in self._twins]
        twins = [members for members in allowed if members]
        best: Rank | None = None
        for counts in _count_vectors([len(one) for one in twins], query.k):
            chosen = mask_of([at for one, take in zip(twins, counts, strict=True) for at in one[:take]])
            if query.joined and not self.joined(chosen | query.beside):
                continue
            rank = self.rank(chosen | query.beside, query.free, query.even, query.nic, query.rails)
            best = rank if best is None or rank < best else best
        return None if best is None else best[-1] & ~query.beside

    @cached_property
    def _twins(self) -> list[list[int]]:
        """Devices grouped so that members of a group are interchangeable in every criterion."""
        groups: list[list[int]] = []
        for at in range(len(self.ids)):
            for group in groups:
                if self._interchangeable(group[0], at):
                    group.append(at)
                    break
            else:
                groups.append([at])
        return groups

    def _interchangeable(self, a: int, b: int) -> bool:
        if (self.domains[a], self.groups[a], self.nics[a]) != (self.domains[b], self.groups[b], self.nics[b]):
            return False
        if self.rails and self.rails[a] != self.rails[b]:
            return False
        others = (at for at in range(len(self.ids)) if at not in {a, b})
        return all(self.costs[a][at] == self.costs[b][at] for at in others)

    def _set_figures(self, mask: int) -> tuple[int, int, int, int, int]:
        """(link cost, NIC distance, unevenness, largest blocks, packing) of a set of devices."""
        found = self._figures_cache.get(mask)
        if found is None:
            if len(self._figures_cache) >= _MEMO_LIMIT:
                self._figures_cache.clear()
            members = list(bits(mask))
            link = sum(self.costs[a][b] for a, b in itertools.combinations(members, 2))
            per_domain = [(mask & one).bit_count() for one in self._domain_masks]
            spread = sum(count * count for count in per_domain)
            packed = sum((mask & one).bit_count() ** 2 for one in self._group_masks)
            blocks = 0
            for count in sorted(per_domain, reverse=True)[:8]:
                blocks = blocks << 7 | count
            found = (link, sum(self.nics[at] for at in members), spread, blocks, packed)
            self._figures_cache[mask] = found
        return found

    @cached_property
    def _table(self) -> _Table:
        return _Table(self)


class _Table:
    """The figures of every subset of up to 16 devices, indexed by bit mask."""

    def __init__(self, family: DeviceFamily) -> None:
        size = 1 << len(family.ids)
        self.subsets: Ints = np.arange(size, dtype=np.int64)
        self.population = _subset_sums([1] * len(family.ids))
        self.near = _subset_sums(family.nics)
        self.link = self._links(family.costs, size)
        counts = [self._count(mask) for mask in family._domain_masks]
        self.spread: Ints = np.zeros(size, dtype=np.int64)
        for one in counts:
            self.spread += one * one
        self.blocks: Ints = np.zeros(size, dtype=np.int64)
        for one in np.sort(np.array(counts).reshape(len(counts), size), axis=0)[::-1][:8]:
            self.blocks = self.blocks << 7 | one
        self.packed: Ints = np.zeros(size, dtype=np.int64)
        for mask in family._group_masks:
            self.packed += self._count(mask) ** 2

    def _count(self, mask: int) -> Ints:
        counts: Ints = self.population[self.subsets & mask]
        return counts

    @staticmethod
    def _links(costs: Sequence[Sequence[int]], size: int) -> Ints:
        """Sum of pair costs per subset, by doubling: a subset with device i added costs i's row over the
        subset more.
        """
        link: Ints = np.zeros(size, dtype=np.int64)
        for at, row in enumerate(costs):
            half = 1 << at
            link[half : 2 * half] = link[:half] + _subset_sums(row[:at])
        return link


def _subset_sums(weights: Sequence[int]) -> Ints:
    """Sum of weights per subset, shape (2**n,)."""
    sums: Ints = np.zeros(1 << len(weights), dtype=np.int64)
    for at, weight in enumerate(weights):
        half = 1 << at
        sums[half : 2 * half] = sums[:half] + weight
    return sums


def _count_vectors(limits: Sequence[int], k: int) -> Iterator[tuple[int, ...]]:
    """All count vectors under `limits` that sum to k."""
    if not limits:
        if k == 0:
            yield ()
        return
    room_after = sum(limits[1:])
    for take in range(max(0, k - room_after), min(limits[0], k) + 1):
        for rest in _count_vectors(limits[1:], k - take):
            yield (take, *rest)
