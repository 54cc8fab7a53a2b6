"""What is remembered of a service beside its document. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from reconciler.values.services.scaling import ScaleDecision


@dataclass(frozen=True, slots=True)
class ServiceGeneration:
    """`document`: canonical, of the service's pattern."""

    name: str
    document: Mapping[str, object]
    commit: str
    since: float
    """Seconds since the epoch from when it was wanted first."""


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


def state_to_json(state: ServiceState) -> dict[str, Any]:
    return asdict(state)


def state_from_json(value: Mapping[str, Any]) -> ServiceState:
    """Empty for an empty one."""
    generations = tuple(ServiceGeneration(**each) for each in value.get("generations", ()))
    scale = ScaleDecision(**value["scale"]) if value.get("scale") else None
    return ServiceState(generations, value.get("stable", ""), value.get("failed", {}), scale)
