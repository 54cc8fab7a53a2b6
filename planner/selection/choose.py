"""The node for a need, over all nodes of a group.

Every distinct need keeps one array of scores; a decision scores again only the nodes that changed since that
need was last asked for,
and then takes the minimum. What precedes the strategy's score: a CPU-only need stays off nodes with devices
while others have room, and
a need that fits one NUMA node goes where it does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.devices.mapping import Mapping
from planner.devices.outside_names import Words
from planner.model.node_state import State
from planner.nodes.feasibility import Index, fits, fits_one_domain
from planner.nodes.node_arrays import Bools, Ints, World
from planner.selection.base import SCORE_LIMIT, Need, NodeFilter, Selection
from planner.selection.fabric import Fabric, Prefer
from planner.selection.node_admission import refusals

NEVER = int(np.iinfo(np.int64).max)
_SPARE_DEVICES = SCORE_LIMIT << 2
_SEVERAL_DOMAINS = SCORE_LIMIT << 1


class Chosen(NamedTuple):
    """A node (index), the mapping of each demand of the need in order, the score, and the second best node or
    -1.
    """

    node: int
    mappings: tuple[Mapping, ...]
    after: State
    """The node with all of it on it."""
    score: int
    runner_up: int
    runner_up_score: int


class _Scores:
    """The scores of one need, and how much of the world's log they know."""

    __slots__ = ("read", "values")

    def __init__(self, count: int) -> None:
        self.values: Ints = np.full(count, NEVER, dtype=np.int64)
        self.read = -1


class Chooser:
    """Choices over one world by one strategy."""

    def __init__(self, world: World, name: str, strategy: Selection, cursor: int = 0) -> None:
        self.world, self.name, self.strategy, self.cursor = world, name, strategy, cursor
        self._rotates: bool = getattr(strategy, "rotates", False)
        self._tolerance: int = getattr(strategy, "tolerance", 0)
        self._order: Ints | None = getattr(strategy, "order", None)
        self._words: dict[int, Words] = {}
        self._scores: dict[Need, _Scores] = {}
        self._filters: dict[NodeFilter, Bools] = {}
        self.fabric = Fabric(world)
        self._every: Index = np.arange(len(world.nodes), dtype=np.intp)

    def choose(
        self, need: Need, excluded: tuple[int, ...] = (), prefer: Prefer | None = None
    ) -> Chosen | None:
        """The best node that is not excluded, with its mapping; None when no node can hold the need.

        `prefer` ranks nodes that the strategy holds equal, the lowest first.
        """
        if not self.world.nodes:
            return None
        values = self.scores(need)
        while True:
            held = [(at, int(values[at])) for at in excluded]
            for at in excluded:
                values[at] = NEVER
            best = self._first(values, prefer)
            score = int(values[best])
            values[best] = NEVER
            second = self._first(values)
            second_score = int(values[second])
            values[best] = score
            for at, value in held:
                values[at] = value
            if score == NEVER:
                return None
            found = self.map(best, need, self.world.states[best])
            if found is not None:
                runner_up = second if second_score != NEVER else -1
                return Chosen(best, *found, score, runner_up, second_score)
            values[best] = NEVER  # until the node changes

    def words(self, at: int) -> Words:
        """What turns mappings on this node into placements."""
        mapper = self.world.mappers[at]
        found = self._words.get(id(mapper))
        if found is None:
            found = self._words[id(mapper)] = Words(mapper)
        return found

    def able(self, need: Need) -> Index:
        """Nodes that could hold the need with nothing else on them."""
        admitted: Index = self.allowed(need.filter).nonzero()[0]
        able: Index = admitted[fits(self.world, need.sum, admitted, empty=True)]
        if _summed_up(need):
            keep = [self.map(at, need, self.world.base[at]) is not None for at in able.tolist()]
            able = able[np.array(keep, dtype=np.bool_)]
        return able

    def holders(self, need: Need) -> list[int]:
        """Nodes (indices, ascending) that hold the need as they are now."""
        nodes = (self.scores(need) != NEVER).nonzero()[0].tolist()
        return [at for at in nodes if self.map(at, need, self.world.states[at]) is not None]

    def scores(self, need: Need) -> Ints:
        """The up-to-date scores of all nodes; NEVER where the need does not fit."""
        known = self._scores.get(need)
        if known is None:
            known = self._scores[need] = _Scores(len(self.world.nodes))
        log = self.world.log
        if known.read < 0 or len(log) - known.read > len(self.world.nodes):
            self._score(need, known.values, self._every)
        elif known.read < len(log):
            changed = sorted(set(log[known.read :]))
            self._score(need, known.values, np.array(changed, dtype=np.intp))
        known.read = len(log)
        return known.values

    def allowed(self, wanted: NodeFilter) -> Bools:
        """Nodes that the filter and their own state admit."""
        found = self._filters.get(wanted)
        if found is None:
            found = self._filters[wanted] = np.array(
                [self._admits(at, wanted) for at in range(len(self.world.nodes))], dtype=np.bool_
            )
        return found

    def describe(self, score: int) -> str:
        text = self.strategy.describe(score % SCORE_LIMIT)
        return f"{text}; over several NUMA nodes" if score & _SEVERAL_DOMAINS else text

    def runner_up(self, chosen: Chosen) -> str:
        """The second best node in words, and why it is second where the scores' words do not tell; empty
        where there is none."""
        if chosen.runner_up < 0:
            return ""
        text = self.describe(chosen.runner_up_score)
        same = text == self.describe(chosen.score)
        why = self._why_second(chosen, same=same)
        said = [part for part in ("" if same else text, why) if part]
        return f"{self.world.nodes[chosen.runner_up].name} ({'; '.join(said)})"

    def _why_second(self, chosen: Chosen, *, same: bool) -> str:
        first, second = chosen.score, chosen.runner_up_score
        if second // _SPARE_DEVICES > first // _SPARE_DEVICES:
            return "its devices are kept free"
        if first == second:
            if self._rotates:
                return "later in turn"
            if self._order is None:
                nearer = chosen.node > chosen.runner_up  # Else the first of the equal ones was taken.
                return "equal, less near to the others" if nearer else "equal, later in the order of nodes"
        if abs(second - first) <= self._tolerance:
            return "as good as equal, later in a fixed order"
        return f"scores {second} against {first}" if same else ""

    def _admits(self, at: int, wanted: NodeFilter) -> bool:
        return next(refusals(self.world.nodes[at], wanted), None) is None

    def _score(self, need: Need, values: Ints, nodes: Index) -> None:
        values[nodes] = NEVER
        good = nodes[self.allowed(need.filter)[nodes]]
        good = good[fits(self.world, need.sum, good)]
        if not len(good):
            return
        scores = self.strategy.scores(self.world, need, good)
        if need.sum.numa == "prefer-single-node":
            scores = scores + _SEVERAL_DOMAINS * ~fits_one_domain(self.world, need.sum, good)
        if not need.sum.wants_devices:
            scores = scores + _SPARE_DEVICES * self.world.has_devices[good]
        values[good] = scores

    def _first(self, values: Ints, prefer: Prefer | None = None) -> int:
        best = int(values.argmin())
        if prefer is not None and values[best] != NEVER and not self._rotates:
            ties = (values <= values[best] + self._tolerance).nonzero()[0]
            order = ties if self._order is None else self._order[ties]
            return int(ties[np.lexsort((order, prefer(ties)))[0]])
        if self._tolerance and self._order is not None and values[best] != NEVER:
            close = (values <= values[best] + self._tolerance).nonzero()[0]
            return int(close[self._order[close].argmin()])
        if self._rotates and 0 < self.cursor < len(values):
            later = self.cursor + int(values[self.cursor :].argmin())
            if values[later] == values[best]:
                return later
        return best

    def map(self, at: int, need: Need, state: State) -> tuple[tuple[Mapping, ...], State] | None:
        """Every demand of the need onto one node in this state, the largest first; nothing is changed."""
        mapper = self.world.mappers[at]
        if len(need.demands) == 1:
            only = mapper.map(state, need.demands[0])
            return ((only,), only.state) if only else None
        mappings: dict[int, Mapping] = {}
        for one in sorted(range(len(need.demands)), key=lambda one: _size(need, one)):
            mapping = mapper.map(state, need.demands[one])
            if mapping is None:
                return None
            mappings[one] = mapping
            state = mapping.state
        return tuple(mappings[one] for one in range(len(need.demands))), state


def _summed_up(need: Need) -> bool:
    """Whether amounts on a node say too little of whether it holds the need when it is empty: only the
    mapping knows."""
    parts = need.sum.shares and (len(need.demands) > 1 or need.sum.whole)
    return bool(need.sum.joined or need.sum.storage or parts)


def _size(need: Need, at: int) -> tuple[int, int, int, int]:
    """Sort key: most devices first, then cores, then memory, then the given order."""
    demand = need.demands[at]
    devices = sum(1000 * count for _, count in demand.whole) + sum(share.milli for share in demand.shares)
    return (-devices, -1000 * demand.cores - demand.milli, -demand.memory, at)
