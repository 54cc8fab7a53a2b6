"""What is remembered of a service beside its document. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from planner.model.types import Placement
from reconciler.values.services.scaling import ScaleDecision
from schemas.values.resource_ref import identity_of, ref_of


@dataclass(frozen=True, slots=True)
class ServiceGeneration:
    """`document`: canonical, of the service's pattern."""

    name: str
    document: Mapping[str, object]
    commit: str
    since: float
    """Seconds since the epoch from when it was wanted first."""


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """A place that is held for a replica to come, as its generation says. `number`: 1, 2, ..., never given
    again."""

    number: int
    generation: str
    placement: Placement


def place_id(service: str, number: int) -> str:
    """The identity that a held place has in plans, which no document has: `Headroom/p/web-3`."""
    ref = ref_of(service)
    return identity_of("Headroom", f"{ref.name}-{number}", ref.project)


def place_service(place: str) -> str:
    """The service (identity) that a place with this identity is held for."""
    ref = ref_of(place)
    return identity_of("Service", ref.name.rpartition("-")[0], ref.project)


@dataclass(frozen=True, slots=True)
class ServiceState:
    """Recorded with the service's document; lost with the store, after which what runs is what is known."""

    generations: tuple[ServiceGeneration, ...] = ()
    """Oldest first."""
    stable: str = ""
    """The last one that was complete."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Generations that were given up → why."""
    scale: ScaleDecision | None = None
    """What the autoscaler holds."""
    completed: tuple[str, ...] = ()
    """Generations that were complete, each once: the one that came to be so last stands last."""
    held: tuple[HeldPlace, ...] = ()
    """By number."""
    last_held: int = 0
    """The highest number that was given so far."""

    def find(self, name: str) -> ServiceGeneration | None:
        return next((each for each in self.generations if each.name == name), None)


NO_STATE = ServiceState()


@dataclass(frozen=True, slots=True)
class RolloutOrder:
    """What a person wants in place of a service's document: `generation`, for as long as the document's own
    is `against`."""

    service: str
    """Identity."""
    generation: str
    against: str
    actor: str
    at: float


@cache
def _held_adapter() -> TypeAdapter[tuple[HeldPlace, ...]]:
    return TypeAdapter(tuple[HeldPlace, ...])


def state_to_json(state: ServiceState) -> dict[str, Any]:
    return {**asdict(replace(state, held=())), "held": _held_adapter().dump_python(state.held, mode="json")}


def state_from_json(value: Mapping[str, Any]) -> ServiceState:
    """Empty for an empty one."""
    generations = tuple(ServiceGeneration(**each) for each in value.get("generations", ()))
    scale = ScaleDecision(**value["scale"]) if value.get("scale") else None
    completed = tuple(value.get("completed", ()))
    held = _held_adapter().validate_python(value["held"]) if value.get("held") else ()
    found = ServiceState(generations, value.get("stable", ""), value.get("failed", {}), scale, completed)
    return replace(found, held=held, last_held=value.get("last_held", 0))
