"""The nodes that a plan changes, each as it is before and after it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.nodes.picture import HeldPlacement
from bai.render.plan.placements import kernel_cores, kernel_devices
from bai.web.panel.plans.parts import Part, cut
from bai.web.panel.views.node_drawing import DrawnNode, draw_node
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from planner.model.types import KernelPlacement, NodeInfo, Placement
    from reconciler.values.plan import Action, Plan

MOST_PAIRS = 12
"""Nodes that are drawn on one page."""


@dataclass(frozen=True, slots=True)
class HeldOn:
    """What a session has of one node, in words: `gpu 0, 1; cores 0-7`."""

    session: str
    what: str


@dataclass(frozen=True, slots=True)
class NodePair:
    """One node; without a picture where it is not there. In `before`, what is `new` leaves or moves; in
    `after` it is placed there."""

    name: str
    before: DrawnNode | None
    after: DrawnNode | None
    goes: tuple[HeldOn, ...]
    comes: tuple[HeldOn, ...]


@dataclass(slots=True)
class _Side:
    """What is held of each node on one side of the plan, and what of that is not on the other."""

    held: dict[str, list[HeldPlacement]]
    changed: dict[str, list[Placement]]

    @classmethod
    def none(cls) -> _Side:
        return cls(defaultdict(list), defaultdict(list))

    def add(self, placement: Placement, *, changed: bool) -> None:
        for node in {kernel.node for kernel in placement.kernels}:
            self.held[node].append(HeldPlacement(placement, new=changed))
            if changed:
                self.changed[node].append(placement)


def node_pairs(
    plan: Plan, before: Mapping[str, NodeInfo], after: Mapping[str, NodeInfo], number: int = 1
) -> Part[NodePair]:
    """For who sees all projects. `before`, `after`: the machines on both sides, by name; `number`: of the
    page of them."""
    then, now = _Side.none(), _Side.none()
    for action in plan.actions:
        changed = _is_moved(action)
        if action.placement_before is not None:
            then.add(action.placement_before, changed=changed)
        if action.placement_after is not None:
            now.add(action.placement_after, changed=changed)
    gone = {ref_of(action.id).name for action in _node_actions(plan) if action.verb == "delete"}
    named = {ref_of(action.id).name for action in _node_actions(plan)}
    names = sorted((then.changed.keys() | now.changed.keys() | named) & (before.keys() | after.keys()))
    part = cut(names, number, MOST_PAIRS)
    pairs = tuple(
        NodePair(
            name,
            _drawn(plan, before.get(name), then),
            None if name in gone else _drawn(plan, after.get(name), now),
            tuple(_held_words(then.changed.get(name, ()), name, before.get(name))),
            tuple(_held_words(now.changed.get(name, ()), name, after.get(name))),
        )
        for name in part.items
    )
    return Part(pairs, part.number, part.count, part.total)


def _node_actions(plan: Plan) -> Iterator[Action]:
    return (action for action in plan.changes if ref_of(action.id).kind == "Node")


def _is_moved(action: Action) -> bool:
    """Whether what it has after the plan is not what it has before."""
    if action.verb == "no-op":
        return False
    before, after = action.placement_before, action.placement_after
    kernels = [placement.kernels if placement else () for placement in (before, after)]
    return kernels[0] != kernels[1] or action.verb == "replace"


def _drawn(plan: Plan, node: NodeInfo | None, side: _Side) -> DrawnNode | None:
    if node is None:
        return None
    return draw_node(plan.cluster, node, side.held.get(node.name, []), lambda identity: True)


def _held_words(placements: Sequence[Placement], node: str, info: NodeInfo | None) -> Iterator[HeldOn]:
    for placement in sorted(placements, key=lambda each: each.session):
        mine = [kernel for kernel in placement.kernels if kernel.node == node]
        yield HeldOn(placement.session, "; ".join(_kernel_words(kernel, info) for kernel in mine))


def _kernel_words(kernel: KernelPlacement, info: NodeInfo | None) -> str:
    devices, cores = kernel_devices(kernel, info), kernel_cores(kernel)
    parts = [devices if devices != "-" else "", f"cores {cores}" if cores != "-" else ""]
    return ", ".join(part for part in parts if part) or "a place"
