"""Sessions onto nodes, all containers or none.

A session on a single node is one need: the sum of its containers. A multi-node session is a gang: one need
per container, each on a node
of its own. Equal containers take the best nodes one after another; when containers differ and that fails, a
matching of containers to
nodes (augmenting paths) decides whether it can be done at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planner.model.demand import Demand, combined_demand, demand_of
from planner.model.types import Choice, GroupInfo, KernelPlacement, KernelRequest, Placement, SessionRequest
from planner.selection.base import Need, NodeFilter
from planner.selection.fabric import rails_of
from planner.selection.node_scorer import NO_FIT, ChosenNode, NodeScorer
from planner.selection.replica_counts import NodePreference


class Shape(NamedTuple):
    """What a session needs, apart from who it is: one need per node."""

    needs: tuple[Need, ...]
    one_leaf: bool = False
    """All nodes hang on one leaf switch."""


class ShapeCache:
    """Sessions that ask for the same get the same `Shape` object."""

    def __init__(self, group: GroupInfo) -> None:
        self._group = group
        self._needs: dict[tuple[tuple[Demand, ...], NodeFilter], Need] = {}
        self._demands: dict[object, Demand] = {}
        self._shapes: dict[Shape, Shape] = {}
        self._known: dict[object, Shape] = {}
        """By what sessions say, as they say it: several ways to say one thing are one shape."""

    def of(self, session: SessionRequest) -> Shape:
        key = (
            tuple([tuple(kernel.slots.items()) for kernel in session.kernels]),
            (session.exclusive_cpus, session.numa, session.require_nvlink),
            (session.multi_node, session.same_leaf),
            (session.designated, session.gpu_models, session.architectures),
            tuple(session.node_selector.items()),
        )
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._make_shape(session)
        return found

    def _make_shape(self, session: SessionRequest) -> Shape:
        demands = tuple(self._demand(session, kernel) for kernel in session.kernels)
        wanted = NodeFilter(
            session.designated,
            session.gpu_models,
            tuple(sorted(session.node_selector.items())),
            session.architectures,
        )
        if session.multi_node:
            needs = tuple(self._need((demand,), wanted) for demand in demands)
        else:
            needs = (self._need(demands, wanted),)
        shape = Shape(needs, session.same_leaf and len(needs) > 1)
        return self._shapes.setdefault(shape, shape)

    def _demand(self, session: SessionRequest, kernel: KernelRequest) -> Demand:
        many = session.multi_node and len(session.kernels) > 1
        rules = (session.exclusive_cpus, session.numa, many, session.require_nvlink)
        key = (tuple(sorted(kernel.slots.items())), rules)
        found = self._demands.get(key)
        if found is None:
            found = self._demands[key] = demand_of(kernel, session, self._group)
        return found

    def _need(self, demands: tuple[Demand, ...], wanted: NodeFilter) -> Need:
        key = (demands, wanted)
        found = self._needs.get(key)
        if found is None:
            found = self._needs[key] = Need(demands, combined_demand(demands), wanted)
        return found


def try_place(
    scorer: NodeScorer,
    session: SessionRequest,
    shape: Shape,
    excluded: tuple[int, ...] = (),
    preference: NodePreference | None = None,
) -> Placement | None:
    """Place the session off the excluded nodes and keep it, or change nothing and say None. `preference`: of
    a service's replica."""
    table = scorer.table
    mark = table.checkpoint()
    chosen = allocate(scorer, shape, excluded, preference)
    if chosen is None:
        table.rollback(mark)
        return None
    kernels = kernel_placements(scorer, session, chosen)
    for one, placed in zip(chosen, kernels, strict=True):
        for kernel in placed:
            table.add_resident(one.node, session.id, kernel)
    table.commit(mark)
    scorer.cursor = (chosen[-1].node + 1) % len(table.nodes)
    return Placement(
        session=session.id,
        group=session.group,
        kernels=tuple(kernel for placed in kernels for kernel in placed),
        choice=_explain_choice(scorer, chosen, preference),
    )


def allocate(
    scorer: NodeScorer,
    shape: Shape,
    excluded: tuple[int, ...] = (),
    preference: NodePreference | None = None,
) -> list[ChosenNode] | None:
    """Take room for every need of the shape, one node each; the caller rolls back when it is None."""
    if len(shape.needs) == 1:
        one = scorer.choose(shape.needs[0], excluded, None, preference)
        if one is None:
            return None
        scorer.table.set_state(one.node, one.after)
        return [one]
    if not shape.one_leaf:
        return _allocate_gang(scorer, shape, excluded, preference)
    for outside in _nodes_off_each_leaf(scorer, shape, excluded, preference):
        found = _allocate_gang(scorer, shape, outside, preference)
        if found is not None:
            return found
    return None


def _allocate_gang(
    scorer: NodeScorer, shape: Shape, excluded: tuple[int, ...], preference: NodePreference | None = None
) -> list[ChosenNode] | None:
    mark = scorer.table.checkpoint()
    taken: list[ChosenNode] = []
    for at, need in enumerate(shape.needs):
        railed, left = _on_rails(scorer, need, taken), len(shape.needs) - at
        found = _allocate_need(scorer, railed, excluded, taken, left, preference)
        if found is None:
            break
        taken.append(found)
    else:
        return taken
    scorer.table.rollback(mark)
    if len(set(shape.needs)) == 1:
        return None
    return _allocate_by_matching(scorer, shape, excluded)


def _nodes_off_each_leaf(
    scorer: NodeScorer, shape: Shape, excluded: tuple[int, ...], preference: NodePreference | None = None
) -> list[tuple[int, ...]]:
    """For every leaf that has room for the shape, all nodes but its own: what is preferred first, then the
    best scores, then the leaf with the least room besides."""
    leaves = scorer.fabric.leaves
    if leaves is None:
        return []
    closed = set(excluded)
    found: list[tuple[int, int, int, int, tuple[int, ...]]] = []
    scores = {need: scorer.scores(need).tolist() for need in dict.fromkeys(shape.needs)}
    ranks = preference.ranks.tolist() if preference is not None else [0] * len(scorer.table.nodes)
    for leaf in sorted(set(leaves.leaf_of.tolist())):
        own = set((leaves.leaf_of == leaf).nonzero()[0].tolist()) - closed
        rooms = {
            need: sorted((ranks[at], all_[at]) for at in own if all_[at] != NO_FIT)
            for need, all_ in scores.items()
        }
        if all(len(room) >= shape.needs.count(need) for need, room in rooms.items()):
            best = [one for need, room in rooms.items() for one in room[: shape.needs.count(need)]]
            rank, score = (sum(part) for part in zip(*best, strict=True))
            outside = tuple(at for at in range(len(scorer.table.nodes)) if at not in own)
            found.append((rank, score, sum(map(len, rooms.values())), leaf, outside))
    return [one[-1] for one in sorted(found)]


def _on_rails(scorer: NodeScorer, need: Need, taken: list[ChosenNode]) -> Need:
    """The need, on the rails of the nodes taken before it where it can be."""
    if not taken or not need.sum.fabric or not scorer.fabric.has_rails:
        return need
    first = taken[0]
    rails = rails_of(scorer.table.topologies[first.node], first.mappings)
    demands = tuple(demand._replace(rails=rails) for demand in need.demands)
    return Need(demands, need.sum._replace(rails=rails), need.filter)


def _allocate_need(
    scorer: NodeScorer,
    need: Need,
    excluded: tuple[int, ...],
    taken: list[ChosenNode],
    left: int = 1,
    preference: NodePreference | None = None,
) -> ChosenNode | None:
    beside = tuple(one.node for one in taken)
    tie_break = scorer.fabric.tie_break(need, beside, left) if taken or left > 1 else None
    found = scorer.choose(need, (*excluded, *beside), tie_break, preference)
    if found is not None:
        scorer.table.set_state(found.node, found.after)
    return found


def _allocate_by_matching(
    scorer: NodeScorer, shape: Shape, excluded: tuple[int, ...]
) -> list[ChosenNode] | None:
    """Nodes for different needs by augmenting paths: found whenever there are any."""
    holders = {need: scorer.feasible_nodes(need) for need in dict.fromkeys(shape.needs)}
    allowed = [[at for at in holders[need] if at not in excluded] for need in shape.needs]
    node_of = bipartite_matching(allowed)
    if node_of is None:
        return None
    every = set(range(len(scorer.table.nodes)))
    mark = scorer.table.checkpoint()
    taken: list[ChosenNode] = []
    for at, need in enumerate(shape.needs):
        found = _allocate_need(scorer, _on_rails(scorer, need, taken), tuple(every - {node_of[at]}), [])
        if found is None:
            scorer.table.rollback(mark)
            return None
        taken.append(found)
    return taken


def bipartite_matching(allowed: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """A node of its own for each need out of its `allowed` ones, by augmenting paths; None when there is no
    such choice."""
    owner: dict[int, int] = {}

    def assign(need: int, seen: set[int]) -> bool:
        for node in allowed[need]:
            if node in seen:
                continue
            seen.add(node)
            if node not in owner or assign(owner[node], seen):
                owner[node] = need
                return True
        return False

    if not all(assign(need, set()) for need in range(len(allowed))):
        return None
    node_of = {need: node for node, need in owner.items()}
    return tuple(node_of[need] for need in range(len(allowed)))


def kernel_placements(
    scorer: NodeScorer, session: SessionRequest, chosen: list[ChosenNode]
) -> list[list[KernelPlacement]]:
    """Placements per node, kernels in the session's order."""
    table = scorer.table
    fabric = session.multi_node and len(session.kernels) > 1
    names = iter(kernel.name for kernel in session.kernels)
    return [
        [
            scorer.placement_builder(one.node).placement(
                next(names), table.nodes[one.node].name, mapping, fabric
            )
            for mapping in one.mappings
        ]
        for one in chosen
    ]


def _explain_choice(
    scorer: NodeScorer, chosen: list[ChosenNode], preference: NodePreference | None
) -> Choice:
    first = chosen[0]
    details = [_leaf_text(scorer, chosen)]
    if preference is not None:
        details.append(preference.describe(one.node for one in chosen))
    return Choice(
        strategy=scorer.name,
        score=scorer.describe(first.score),
        runner_up=scorer.runner_up(first, preference),
        numa_nodes=max(len(mapping.domains) for one in chosen for mapping in one.mappings),
        detail="; ".join(text for text in details if text),
        connection=scorer.placement_builder(first.node).connection(first.mappings[0]),
    )


def _leaf_text(scorer: NodeScorer, chosen: list[ChosenNode]) -> str:
    leaves = scorer.fabric.leaves
    return leaves.describe(one.node for one in chosen) if leaves is not None and len(chosen) > 1 else ""
