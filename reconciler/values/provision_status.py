"""What nodes are to be, and how they stand: the part of `Actual` that provisioning rests on."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from providers.condition.values import NodeCondition
from providers.provisioning import HostResult, ProvisionTarget
from reconciler.values.records import ProvisionRecord


@dataclass(frozen=True, slots=True)
class ProvisionStatus:
    """Of the nodes that have a profile. A condition is of now, or as it was last seen (`remembered`)."""

    targets: Mapping[str, ProvisionTarget] = field(default_factory=dict)
    conditions: Mapping[str, NodeCondition] = field(default_factory=dict)
    remembered: Mapping[str, float] = field(default_factory=dict)
    """Node → when the condition that stands here was seen, where it is not of now."""
    unreached: Mapping[str, str] = field(default_factory=dict)
    """Node → why it could not be looked at."""
    checks: Mapping[str, HostResult] = field(default_factory=dict)
    """Node → what its roles would change; of nodes that were asked."""
    problem: str = ""
    """Why nothing can be provisioned from here; empty when it can, or when nobody tried."""

    def sealed(self, node: str) -> bool:
        """Whether it was ever provisioned, as far as is known."""
        condition = self.conditions.get(node)
        seal = condition.stamp if condition is not None else None
        return seal is not None and not seal.unfinished


@functools.cache
def _adapter() -> TypeAdapter[NodeCondition]:
    return TypeAdapter(NodeCondition)


def condition_json(condition: NodeCondition) -> str:
    """As JSON in one normal form, for the store."""
    return _adapter().dump_json(condition).decode()


def recorded_condition(record: ProvisionRecord) -> NodeCondition | None:
    """What the store has; None where it has nothing, or nothing that can be read."""
    if not record.condition:
        return None
    try:
        return _adapter().validate_json(record.condition)
    except ValidationError:
        return None
