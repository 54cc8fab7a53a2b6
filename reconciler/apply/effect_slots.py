"""Which of the effects that are due may start now. Pure.

A node that is slow holds up no other one: it has a part of the places while others want the rest, and what
runs for long on it takes nobody's place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from reconciler.apply.progress import QueuedEffect
from reconciler.apply.steps import Step, StepKind
from reconciler.observe.observe import recorded_nodes
from reconciler.values.records import Recorded

LONG = 10.0
"""Seconds after which an effect that still runs leaves its place to another one; as many may as there are
places."""
MOST_DRAINS = 256
"""Replicas that are drained at a time: they only wait, and take nobody's place."""
_NODE_PARTS = 4
"""One node has so small a part of the places where effects of several nodes are due."""


def node_of(step: Step, record: Recorded | None) -> str:
    """Where it has its effect; `record`: that of its resource."""
    if step.spec is not None:
        return step.spec.labels.node
    if step.pull is not None:
        return step.pull.node
    if step.folder is not None:
        return step.folder.node
    return recorded_nodes(record).get(step.kernel_id, "") if record is not None else ""


def startable(
    due: Sequence[QueuedEffect], running: Collection[QueuedEffect], parallel: int, now: float
) -> list[QueuedEffect]:
    """In their order. Nodes that are provisioned and replicas that are drained have rooms of their own, for
    they take long."""
    rooms: Mapping[StepKind, int] = {"provision": parallel, "drain": MOST_DRAINS}
    apart: list[QueuedEffect] = []
    for kind, room in rooms.items():
        under_way = sum(effect.step.kind == kind for effect in running)
        wanted = [effect for effect in due if effect.step.kind == kind]
        apart += wanted[: max(0, room - under_way)]
    others = [effect for effect in due if effect.step.kind not in rooms]
    at_work = [effect for effect in running if effect.step.kind not in rooms]
    return [*_kernel_effects(others, at_work, parallel, now), *apart]


def _kernel_effects(
    due: list[QueuedEffect], running: list[QueuedEffect], parallel: int, now: float
) -> list[QueuedEffect]:
    """All but those. Images that are brought early take long: they go last, and leave room."""
    pulls = [effect for effect in due if effect.step.kind == "pull"]
    under_way = sum(effect.step.kind == "pull" for effect in running)
    pulls = pulls[: max(0, max(1, parallel // 2) - under_way)]
    others = [effect for effect in due if effect.step.kind != "pull"]
    long = sum(effect.step.kind != "pull" and now - effect.began >= LONG for effect in running)
    room = parallel + min(long, parallel) - len(running)
    return _shared_among_nodes([*others, *pulls], running, parallel, room)


def _shared_among_nodes(
    wanted: list[QueuedEffect], running: list[QueuedEffect], parallel: int, room: int
) -> list[QueuedEffect]:
    """So many, and none of nodes that have their part already where other nodes have something to do, too."""
    first = next((effect.node for effect in (*running, *wanted)), "")
    if all(effect.node == first for effect in (*running, *wanted)):
        return wanted[: max(0, room)]
    part = max(1, parallel // _NODE_PARTS)
    taken = Counter(effect.node for effect in running)
    chosen: list[QueuedEffect] = []
    for effect in wanted:
        if len(chosen) >= room:
            break
        if not effect.node or taken[effect.node] < part:
            taken[effect.node] += 1
            chosen.append(effect)
    return chosen
