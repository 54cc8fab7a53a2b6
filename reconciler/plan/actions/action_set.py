"""The actions of a plan while it is made. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.values.plan import Action
from reconciler.values.rollout import Rollout


@dataclass(frozen=True, slots=True)
class ActionSet:
    """Made by `make_actions`, put in order by `order_actions`; read by `seal_plan`."""

    actions: tuple[Action, ...]
    rollout: Rollout | None = None
    """What the plan says about the provisioning of nodes."""
    notes: tuple[str, ...] = ()
    """Volumes that are not deleted yet."""
