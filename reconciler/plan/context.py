"""The plan context: what one plan is made for, as every stage of the pipeline reads it. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from planner.model.plan_time import PlanTime
from planner.model.types import NodeInfo, Outcome, Snapshot
from reconciler.plan.node_rollout import NodeRollout
from reconciler.plan.services.service_rollouts import NO_ROLLOUTS, ServiceRollouts
from reconciler.values.state import Actual, Desired

M = TypeVar("M")

Planner = Callable[[Snapshot], Outcome]
"""Who places: the planner with its policies. Equal snapshots give equal outcomes."""


class PlanMemory:
    """What the stages of one plan leave for the next one of the same options. It changes no plan."""

    def __init__(self) -> None:
        self._left: dict[type[object], object] = {}
        self._around: tuple[object, ...] = ()

    def of(self, kind: type[M]) -> M:
        """What a stage has left, each in a type of its own; empty where there is nothing."""
        found = self._left.get(kind)
        if not isinstance(found, kind):
            found = self._left[kind] = kind()
        return found

    def around(self, found: tuple[object, ...]) -> tuple[object, ...]:
        """The same object as for the plan before, where it is equal."""
        if found != self._around:
            self._around = found
        return self._around


@dataclass(frozen=True, slots=True)
class PlanContext:
    """Made by `prepare` from the plan request, read by every later stage."""

    desired: Desired
    actual: Actual
    time: PlanTime
    """What each stage asks for the time, so that the plan knows until when it holds."""
    nodes: Mapping[str, NodeInfo]
    """The nodes whose hardware is known; those of the rollout take nothing new."""
    place: Planner
    targets: tuple[str, ...] = ()
    """As they were asked for, sorted."""
    scope: frozenset[str] | None = None
    """Identities that may change; None for all."""
    destroy: bool = False
    """Whether nothing is desired."""
    replace_requests: frozenset[str] = frozenset()
    """Sessions to be started again though nothing changed."""
    without: frozenset[str] = frozenset()
    """Left as they are, whatever is said about them."""
    rollout: NodeRollout | None = None
    """What becomes of the nodes that differ from their profiles; None where none does."""
    services: ServiceRollouts = NO_ROLLOUTS
    """What becomes of services; their replicas are among the sessions of `desired`."""
    node_warnings: tuple[str, ...] = ()
    """Why nodes cannot be used."""
    memory: PlanMemory = field(default_factory=PlanMemory, compare=False)
    """What the plan before has left; it changes no plan."""
    around: tuple[object, ...] = ()
    """All that what follows from one session rests on beside that session."""

    def may_change(self, identity: str) -> bool:
        """Whether this plan may change a resource; none, where not everything could be seen."""
        if identity in self.without:
            return False
        return self.actual.complete and (self.scope is None or identity in self.scope)
