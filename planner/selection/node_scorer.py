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
from planner.devices.placement_builder import PlacementBuilder
from planner.model.node_state import ResourceState
from planner.nodes.feasibility import Index, fits, fits_one_domain
from planner.nodes.node_table import Bools, Ints, NodeTable
from planner.selection.base import SCORE_LIMIT, Need, NodeFilter, Selection
from planner.selection.fabric import Fabric, TieBreak
from planner.selection.need_mapping import map_need
from planner.selection.node_admission import refusals
from planner.selection.replica_counts import NodePreference

NO_FIT = int(np.iinfo(np.int64).max)
_KEEP_DEVICES_FREE = SCORE_LIMIT << 2
_SEVERAL_DOMAINS = SCORE_LIMIT << 1
_MOST_STATES = 10_000
"""Remembered scores of one need."""


class ChosenNode(NamedTuple):
    """A node (index), the mapping of each demand of the need in order, the score, and the second best node or
    -1.
    """

    node: int
    mappings: tuple[Mapping, ...]
    after: ResourceState
    """The node with all of it on it."""
    score: int
    runner_up: int
    runner_up_score: int


class _CachedScores:
    """The scores of one need, how much of the table's change log they know, and what nodes score in states
    that were seen before."""

    __slots__ = ("by_state", "read", "values")

    def __init__(self, count: int) -> None:
        self.values: Ints = np.full(count, NO_FIT, dtype=np.int64)
        self.read = -1
        self.by_state: dict[int, int] = {}


class NodeScorer:
    """Filters and scores the nodes of one table by one strategy, and picks the best."""

    def __init__(self, table: NodeTable, name: str, strategy: Selection, cursor: int = 0) -> None:
        self.table, self.name, self.strategy, self.cursor = table, name, strategy, cursor
        self._rotates: bool = getattr(strategy, "rotates", False)
        self._tolerance: int = getattr(strategy, "tolerance", 0)
        self._order: Ints | None = getattr(strategy, "order", None)
        self._by_state: bool = getattr(strategy, "by_state", False)
        self._placement_builders: dict[int, PlacementBuilder] = {}
        self._scores: dict[Need, _CachedScores] = {}
        self._filters: dict[NodeFilter, Bools] = {}
        self.fabric = Fabric(table)
        self._every: Index = np.arange(len(table.nodes), dtype=np.intp)

    def choose(
        self,
        need: Need,
        excluded: tuple[int, ...] = (),
        tie_break: TieBreak | None = None,
        preference: NodePreference | None = None,
    ) -> ChosenNode | None:
        """The best node that is not excluded, with its mapping; None when no node can hold the need.

        `tie_break` ranks nodes that the strategy holds equal, the lowest first; of `preference` the strategy
        only scores the nodes that are preferred among those with room.
        """
        if not self.table.nodes:
            return None
        values = self.scores(need)
        while True:
            held = [(at, int(values[at])) for at in excluded]
            for at in excluded:
                values[at] = NO_FIT
            best = self._best_index(_preferred(values, preference), tie_break)
            score = int(values[best])
            values[best] = NO_FIT
            second = self._best_index(_preferred(values, preference))
            second_score = int(values[second])
            values[best] = score
            for at, value in held:
                values[at] = value
            if score == NO_FIT:
                return None
            found = map_need(self.table, best, need, self.table.states[best])
            if found is not None:
                runner_up = second if second_score != NO_FIT else -1
                return ChosenNode(best, *found, score, runner_up, second_score)
            values[best] = NO_FIT  # until the node changes

    def placement_builder(self, at: int) -> PlacementBuilder:
        """What turns mappings on this node into placements."""
        mapper = self.table.mappers[at]
        found = self._placement_builders.get(id(mapper))
        if found is None:
            found = self._placement_builders[id(mapper)] = PlacementBuilder(mapper)
        return found

    def capable_nodes(self, need: Need) -> Index:
        """Nodes that could hold the need with nothing else on them."""
        admitted: Index = self.admitted(need.filter).nonzero()[0]
        capable: Index = admitted[fits(self.table, need.sum, admitted, empty=True)]
        if _needs_exact_mapping(need):
            keep = [
                map_need(self.table, at, need, self.table.empty_states[at]) is not None
                for at in capable.tolist()
            ]
            capable = capable[np.array(keep, dtype=np.bool_)]
        return capable

    def feasible_nodes(self, need: Need) -> list[int]:
        """Nodes (indices, ascending) that hold the need as they are now."""
        nodes = (self.scores(need) != NO_FIT).nonzero()[0].tolist()
        return [at for at in nodes if map_need(self.table, at, need, self.table.states[at]) is not None]

    def scores(self, need: Need) -> Ints:
        """The up-to-date scores of all nodes; NO_FIT where the need does not fit."""
        known = self._scores.get(need)
        if known is None:
            known = self._scores[need] = _CachedScores(len(self.table.nodes))
        log = self.table.change_log
        if known.read < 0 or len(log) - known.read > len(self.table.nodes):
            self._score(need, known.values, self._every)
        elif known.read < len(log):
            self._score_changed(need, known, set(log[known.read :]))
        known.read = len(log)
        return known.values

    def admitted(self, wanted: NodeFilter) -> Bools:
        """Nodes that the filter and their own state admit."""
        found = self._filters.get(wanted)
        if found is None:
            found = self._filters[wanted] = np.array(
                [self._admits(at, wanted) for at in range(len(self.table.nodes))], dtype=np.bool_
            )
        return found

    def describe(self, score: int) -> str:
        text = self.strategy.describe(score % SCORE_LIMIT)
        return f"{text}; over several NUMA nodes" if score & _SEVERAL_DOMAINS else text

    def runner_up(self, chosen: ChosenNode, preference: NodePreference | None = None) -> str:
        """The second best node in words, and why it is second where the scores' words do not tell; empty
        where there is none."""
        if chosen.runner_up < 0:
            return ""
        text = self.describe(chosen.runner_up_score)
        same = text == self.describe(chosen.score)
        why = preference.why_second(chosen.node, chosen.runner_up) if preference is not None else ""
        why = why or self._why_second(chosen, same=same)
        said = [part for part in ("" if same else text, why) if part]
        return f"{self.table.nodes[chosen.runner_up].name} ({'; '.join(said)})"

    def _why_second(self, chosen: ChosenNode, *, same: bool) -> str:
        first, second = chosen.score, chosen.runner_up_score
        if second // _KEEP_DEVICES_FREE > first // _KEEP_DEVICES_FREE:
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
        return next(refusals(self.table.nodes[at], wanted), None) is None

    def _score_changed(self, need: Need, known: _CachedScores, changed: set[int]) -> None:
        """Score nodes again; of those in a state that was scored before nothing is computed."""
        if not self._by_state:
            self._score(need, known.values, np.array(sorted(changed), dtype=np.intp))
            return
        values, by_state, numbers = known.values, known.by_state, self.table.state_numbers
        admitted = self.admitted(need.filter)
        new = []
        for at in changed:
            score = by_state.get(numbers[at]) if admitted[at] else NO_FIT
            if score is None:
                new.append(at)
            else:
                values[at] = score
        if new:
            if len(by_state) > _MOST_STATES:
                by_state.clear()
            self._score(need, values, np.array(new, dtype=np.intp))
            for at in new:
                by_state[numbers[at]] = int(values[at])

    def _score(self, need: Need, values: Ints, nodes: Index) -> None:
        values[nodes] = NO_FIT
        good = nodes[self.admitted(need.filter)[nodes]]
        good = good[fits(self.table, need.sum, good)]
        if not len(good):
            return
        scores = self.strategy.scores(self.table, need, good)
        if need.sum.numa == "prefer-single-node":
            scores = scores + _SEVERAL_DOMAINS * ~fits_one_domain(self.table, need.sum, good)
        if not need.sum.wants_devices:
            scores = scores + _KEEP_DEVICES_FREE * self.table.has_devices[good]
        values[good] = scores

    def _best_index(self, values: Ints, tie_break: TieBreak | None = None) -> int:
        best = int(values.argmin())
        if tie_break is not None and values[best] != NO_FIT and not self._rotates:
            ties = (values <= values[best] + self._tolerance).nonzero()[0]
            order = ties if self._order is None else self._order[ties]
            return int(ties[np.lexsort((order, tie_break(ties)))[0]])
        if self._tolerance and self._order is not None and values[best] != NO_FIT:
            close = (values <= values[best] + self._tolerance).nonzero()[0]
            return int(close[self._order[close].argmin()])
        if self._rotates and 0 < self.cursor < len(values):
            later = self.cursor + int(values[self.cursor :].argmin())
            if values[later] == values[best]:
                return later
        return best


def _preferred(values: Ints, preference: NodePreference | None) -> Ints:
    return values if preference is None else preference.among(values, NO_FIT)


def _needs_exact_mapping(need: Need) -> bool:
    """Whether amounts on a node say too little of whether it holds the need when it is empty: only the
    mapping knows."""
    parts = need.sum.shares and (len(need.demands) > 1 or need.sum.whole)
    return bool(need.sum.joined or need.sum.storage or parts)
