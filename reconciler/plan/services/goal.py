"""How many replicas of which generation are to be. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.plan.services.replicas import Replica
from reconciler.values.services.state import RolloutOrder, ServiceState
from schemas.kinds.service import ServiceSpec

ALL = 100


@dataclass(frozen=True, slots=True)
class Goal:
    """`target`: the generation that the service goes to, and `why` it is not the document's; `counts`:
    generation → replicas; `weights`: generation → its part of all requests, empty where all replicas are
    alike. `held`: nothing of another generation is begun or taken away."""

    target: str
    counts: Mapping[str, int]
    why: str = ""
    weights: Mapping[str, int] = field(default_factory=dict)
    held: bool = False


def rollout_goal(
    spec: ServiceSpec,
    wanted: int,
    latest: str,
    state: ServiceState,
    order: RolloutOrder | None,
    replicas: Sequence[Replica],
) -> Goal:
    """`wanted`: replicas in all. What a person ordered counts before the document, for as long as that stays;
    a generation that was given up makes way for the last one that was complete."""
    target, why = latest, ""
    known = {each.name for each in state.generations} | {latest}
    if order is not None and order.against == latest and order.generation in known:
        target = order.generation
        why = f"undone by {order.actor}: {target} in place of {latest}" if target != latest else ""
    elif latest in state.failed and spec.update.rollback and state.stable not in ("", latest):
        target = state.stable
        why = f"generation {latest} was given up: {state.failed[latest]}"
    if spec.traffic and target == latest:
        parts = _parts(spec, latest, state.stable or latest, known)
        if len(parts) > 1:
            return Goal(target, _shares(parts, wanted), why, parts)
        target = next(iter(parts), target)
    if spec.update.paused and (held := _held(wanted, target, replicas)):
        return Goal(target, held, why or "`update.paused` holds it", held=True)
    return Goal(target, {target: wanted}, why)


def _parts(spec: ServiceSpec, latest: str, stable: str, known: Collection[str]) -> dict[str, int]:
    """Weights by generation; those of a generation that is not known are the latest's."""
    named = {"latest": latest, "stable": stable}
    found: Counter[str] = Counter()
    for part in spec.traffic:
        name = named.get(part.generation, part.generation)
        found[name if name in known else latest] += part.weight
    return {name: weight for name, weight in sorted(found.items()) if weight}


def _shares(parts: Mapping[str, int], replicas: int) -> dict[str, int]:
    """By largest remainders; each generation has at least one, as long as there are any."""
    if not replicas:
        return dict.fromkeys(parts, 0)
    exact = {name: replicas * weight / ALL for name, weight in parts.items()}
    found = {name: max(1, int(each)) for name, each in exact.items()}
    order = sorted(parts, key=lambda name: (int(exact[name]) - exact[name], name))
    for name in order:
        if sum(found.values()) >= replicas:
            break
        found[name] += 1
    while sum(found.values()) > replicas and max(found.values()) > 1:
        most = max(found, key=lambda name: (found[name], name))
        found[most] -= 1
    return found


def _held(wanted: int, target: str, replicas: Sequence[Replica]) -> dict[str, int]:
    """As many of each generation as there are; what is missing or too many is so of the one with the most.
    Empty where there is nothing but the target."""
    found = Counter(each.generation for each in replicas if not each.leaving)
    if not set(found) - {target}:
        return {}
    most = max(found, key=lambda name: (found[name], name != target, name))
    found[most] = max(0, found[most] + wanted - sum(found.values()))
    return dict(found)
