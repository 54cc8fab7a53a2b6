"""A plan's actions as a graph of parts, from the plan alone.

An action has up to two parts. *Release* stops and removes what is there; *acquire* creates or updates. They
are apart so that two sessions can swap their devices: every release may run at once, and what acquires a
device or core waits for the release of whoever held it. What an action depends on comes before its acquiring
part, or before all of it when there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from planner.model.types import Placement
from reconciler.apply.steps import Step, StepKind, action_steps
from reconciler.values.plan import Action, Plan
from schemas.problems.errors.plan import PlanError
from schemas.values.resource_ref import ref_of

_RELEASING: frozenset[StepKind] = frozenset({"drain", "stop", "remove"})
_ACQUIRING: frozenset[StepKind] = frozenset({"create", "update"})
_ALONE: frozenset[StepKind] = frozenset({"record", "forget", "ready"})
_PULL = "#pull@"
_NodeUnit = tuple[str, str]
"""A node and one of its cores (`cpu 3`) or devices."""


@dataclass(frozen=True, slots=True)
class ActionPart:
    """Steps of one action that belong together. Each wave's steps run at the same time, the waves one after
    another."""

    id: str
    action: Action
    waves: tuple[tuple[Step, ...], ...]
    after: frozenset[str] = field(default_factory=frozenset)
    """Ids of the parts that must have succeeded before."""


def build_action_graph(plan: Plan) -> dict[str, ActionPart]:
    """The parts of all changes by id, in the plan's order.

    Raises PlanError when they wait for each other in a circle.
    """
    split = {action.id: _split_into_parts(action, plan) for action in plan.changes}
    holders = _unit_holders(split)
    parts = {part.id: part for action_parts in split.values() for part in action_parts}
    firm = {part.id: _fixed_dependencies(part, split) for part in parts.values()}
    freed = {part.id: _unit_dependencies(part, holders) - {part.id} for part in parts.values()}
    for part in _parts_on_cycles({name: firm[name] | freed[name] for name in parts}):
        # Two sessions that trade cores while both go on running: their cpusets overlap for a moment.
        freed[part] = {holder for holder in freed[part] if holder.endswith("#release")}
    pulled = _image_dependencies(split)
    after = {name: firm[name] | freed[name] | pulled.get(name, set()) for name in parts}
    if circle := _parts_after_cycles(after):
        names = ", ".join(sorted({parts[name].action.id for name in circle}))
        raise PlanError(why=f"these wait for each other: {names}")
    return {name: replace(part, after=frozenset(after[name])) for name, part in parts.items()}


def _split_into_parts(action: Action, plan: Plan) -> tuple[ActionPart, ...]:
    """The release and acquire parts of an action, in this order; one of them when the other has nothing to
    do."""
    todo = action_steps(action, plan)
    if ref_of(action.id).kind == "Image" and any(step.kind == "pull" for step in todo):
        return _node_by_node(action, todo)
    cut = max((at + 1 for at, step in enumerate(todo) if step.kind in _RELEASING), default=0)
    if not any(step.kind in _ACQUIRING for step in todo[cut:]):
        return (ActionPart(f"{action.id}#release", action, _step_waves(todo)),)
    acquire = ActionPart(f"{action.id}#acquire", action, _step_waves(todo[cut:]))
    return (
        (ActionPart(f"{action.id}#release", action, _step_waves(todo[:cut])), acquire) if cut else (acquire,)
    )


def _node_by_node(action: Action, todo: tuple[Step, ...]) -> tuple[ActionPart, ...]:
    """Every node gets an image by itself, so that one that cannot be reached stops nobody elsewhere."""
    pulls = [step for step in todo if step.kind == "pull"]
    rest = tuple(step for step in todo if step.kind != "pull")
    parts = (ActionPart(f"{action.id}{_PULL}{step.kernel_id}", action, ((step,),)) for step in pulls)
    return (*parts, ActionPart(f"{action.id}#record", action, _step_waves(rest)))


def _image_dependencies(split: Mapping[str, tuple[ActionPart, ...]]) -> dict[str, set[str]]:
    """Parts that create kernels → those that bring the images of these to their nodes."""
    brings: dict[tuple[str, str], str] = {}
    for parts in split.values():
        for part in parts:
            pull = part.waves[0][0].pull if _PULL in part.id and part.waves else None
            if pull is not None:
                brings[pull.node, pull.image] = part.id
    needs: dict[str, set[str]] = {}
    for parts in split.values() if brings else ():
        acquire, after = parts[-1], parts[-1].action.session_after
        if after is not None and acquire.id.endswith("#acquire"):
            wanted = {(pull.node, pull.image) for pull in after.pulls}
            needs[acquire.id] = {brings[each] for each in wanted & brings.keys()}
    return needs


def _step_waves(todo: tuple[Step, ...]) -> tuple[tuple[Step, ...], ...]:
    """Neighbouring effects of one kind together; every write to the store by itself."""
    waves: list[list[Step]] = []
    for step in todo:
        if waves and step.kind not in _ALONE and waves[-1][0].kind == step.kind:
            waves[-1].append(step)
        else:
            waves.append([step])
    return tuple(tuple(wave) for wave in waves)


def _unit_holders(split: Mapping[str, tuple[ActionPart, ...]]) -> dict[_NodeUnit, set[str]]:
    """Which parts free which units: a release all that was held, an update in place what it gives up, also
    when something else of its session is removed before."""
    holders: dict[_NodeUnit, set[str]] = {}
    for first, *rest in split.values():
        before, after = first.action.session_before, first.action.session_after
        if before is None:
            continue
        holder = rest[-1] if rest and _updates_in_place(rest[-1]) else first
        freed = set(_units(before.placement))
        if after is not None and not holder.id.endswith("#release"):
            freed -= set(_units(after.placement))
        for unit in freed:
            holders.setdefault(unit, set()).add(holder.id)
    return holders


def _updates_in_place(part: ActionPart) -> bool:
    return any(step.kind == "update" for wave in part.waves for step in wave)


def _fixed_dependencies(part: ActionPart, split: Mapping[str, tuple[ActionPart, ...]]) -> set[str]:
    """What must come before in any case: its own release, what the action depends on, whose turn it is."""
    own = split[part.action.id]
    turn = part.action.in_turn
    if part is own[0] and turn in split:
        return {split[turn][-1].id}
    if part is not own[-1]:
        return set()
    first = {own[0].id} if len(own) > 1 and _PULL not in own[0].id else set()
    if not _needs_others(part):
        return first
    others = (other for other in part.action.depends_on if other != part.action.id)
    # A node has to be empty; where its sessions go on is not for it to wait for.
    last = 0 if _provisions(part) else -1
    return first | {split[other][last].id for other in others if other in split}


def _provisions(part: ActionPart) -> bool:
    return part.action.provision is not None


def _needs_others(part: ActionPart) -> bool:
    """Whether the action's dependencies matter to this part: one that creates, deletes or only records.

    A session that stops to wait, or changes in place, gives up what it gives up without waiting.
    """
    if part.id.endswith("#acquire"):
        return any(step.kind == "create" for wave in part.waves for step in wave)
    action = part.action
    return action.after is None or action.placement_before is None


def _unit_dependencies(part: ActionPart, holders: Mapping[_NodeUnit, set[str]]) -> set[str]:
    """The parts that free what this one takes."""
    if not part.id.endswith("#acquire"):
        return set()
    units = _units(part.action.placement_after)
    return {holder for unit in units for holder in holders.get(unit, ())}


def _units(placement: Placement | None) -> Iterator[_NodeUnit]:
    for kernel in placement.kernels if placement else ():
        for cpu in kernel.cpus:
            yield kernel.node, f"cpu {cpu}"
        for device in kernel.devices:
            yield kernel.node, device.id


def _parts_on_cycles(after: Mapping[str, set[str]]) -> set[str]:
    """Parts that wait for themselves, or stand between such; not those that only wait for these."""
    followers: dict[str, set[str]] = {part: set() for part in after}
    for part, before in after.items():
        for name in before:
            followers[name].add(part)
    return _parts_after_cycles(after) & _parts_after_cycles(followers)


def _parts_after_cycles(after: Mapping[str, set[str]]) -> set[str]:
    """Parts that can never start, because they wait for each other or for ones that do."""
    left = {part: len(before) for part, before in after.items()}
    followers: dict[str, list[str]] = {}
    for part, before in after.items():
        for name in before:
            followers.setdefault(name, []).append(part)
    free = [part for part, count in left.items() if not count]
    while free:
        done = free.pop()
        del left[done]
        for follower in followers.get(done, ()):
            left[follower] -= 1
            if not left[follower]:
                free.append(follower)
    return set(left)
