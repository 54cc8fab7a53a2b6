"""A plan's actions as a graph of parts, from the plan alone.

An action has up to two parts. *Release* stops and removes what is there; *acquire* creates or updates. They
are apart so that two sessions can swap their devices: every release may run at once, and what acquires a
device or core waits for the release of whoever held it. What an action depends on comes before its acquiring
part, or before all of it when there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from planner.types import Placement
from reconciler.plan import Action, Plan
from reconciler.steps import Step, StepKind, steps
from schemas.errors import PlanError

_RELEASING: frozenset[StepKind] = frozenset({"stop", "remove"})
_ACQUIRING: frozenset[StepKind] = frozenset({"create", "update"})
_ALONE: frozenset[StepKind] = frozenset({"record", "forget"})
_Unit = tuple[str, str]
"""A node and one of its cores (`cpu 3`) or devices."""


@dataclass(frozen=True, slots=True)
class Part:
    """Steps of one action that belong together. Each wave's steps run at the same time, the waves one after
    another."""

    id: str
    action: Action
    waves: tuple[tuple[Step, ...], ...]
    after: frozenset[str] = field(default_factory=frozenset)
    """Ids of the parts that must have succeeded before."""


def build(plan: Plan) -> dict[str, Part]:
    """The parts of all changes by id, in the plan's order.

    Raises PlanError when they wait for each other in a circle.
    """
    split = {action.id: _split(action, plan) for action in plan.changes}
    holders = _holders(split)
    parts: dict[str, Part] = {}
    for action_parts in split.values():
        for position, part in enumerate(action_parts):
            after = {action_parts[0].id} if position else set()
            if position == len(action_parts) - 1:
                after |= _dependencies(part.action, split) | _freeing(part, holders)
            parts[part.id] = replace(part, after=frozenset(after - {part.id}))
    _refuse_circles(parts)
    return parts


def _split(action: Action, plan: Plan) -> tuple[Part, ...]:
    """The release and acquire parts of an action, in this order; one of them when the other has nothing to
    do."""
    todo = steps(action, plan)
    cut = max((at + 1 for at, step in enumerate(todo) if step.kind in _RELEASING), default=0)
    if not any(step.kind in _ACQUIRING for step in todo[cut:]):
        return (Part(f"{action.id}#release", action, _waves(todo)),)
    acquire = Part(f"{action.id}#acquire", action, _waves(todo[cut:]))
    return (Part(f"{action.id}#release", action, _waves(todo[:cut])), acquire) if cut else (acquire,)


def _waves(todo: tuple[Step, ...]) -> tuple[tuple[Step, ...], ...]:
    """Neighbouring effects of one kind together; every write to the store by itself."""
    waves: list[list[Step]] = []
    for step in todo:
        if waves and step.kind not in _ALONE and waves[-1][0].kind == step.kind:
            waves[-1].append(step)
        else:
            waves.append([step])
    return tuple(tuple(wave) for wave in waves)


def _holders(split: Mapping[str, tuple[Part, ...]]) -> dict[_Unit, set[str]]:
    """Which releasing parts free which units."""
    holders: dict[_Unit, set[str]] = {}
    for first, *_ in split.values():
        before = first.action.before
        if first.id.endswith("#release") and before is not None:
            for unit in _units(before.placement):
                holders.setdefault(unit, set()).add(first.id)
    return holders


def _freeing(part: Part, holders: Mapping[_Unit, set[str]]) -> set[str]:
    after = part.action.after
    if after is None or not part.id.endswith("#acquire"):
        return set()
    return {holder for unit in _units(after.placement) for holder in holders.get(unit, ())}


def _units(placement: Placement | None) -> Iterator[_Unit]:
    for kernel in placement.kernels if placement else ():
        for cpu in kernel.cpus:
            yield kernel.node, f"cpu {cpu}"
        for device in kernel.devices:
            yield kernel.node, device.id


def _dependencies(action: Action, split: Mapping[str, tuple[Part, ...]]) -> set[str]:
    return {split[other][-1].id for other in action.depends_on if other in split and other != action.id}


def _refuse_circles(parts: Mapping[str, Part]) -> None:
    waiting = {part.id: set(part.after) for part in parts.values()}
    while free := [part for part, after in waiting.items() if not after]:
        for part in free:
            del waiting[part]
        for after in waiting.values():
            after.difference_update(free)
    if waiting:
        names = ", ".join(sorted({parts[part].action.id for part in waiting}))
        raise PlanError(why=f"these wait for each other: {names}")
