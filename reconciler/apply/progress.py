"""How far each part and each action has come."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.apply.action_graph import ActionPart
from reconciler.apply.steps import Step
from reconciler.values.plan import Action
from reconciler.values.results import ActionResult, Outcome


@dataclass(slots=True)
class PartProgress:
    """One part under way: which wave, which of its steps are still to end, what went wrong first."""

    part: ActionPart
    wave: int = 0
    open: int = 0
    """Steps of this wave that have not ended."""
    error: str = ""
    created: list[Step] = field(default_factory=list)
    """Create steps that were begun, whether they succeeded or not."""
    starting: bool = False
    """Whether an engine was still to start a created kernel."""
    draining: bool = False
    """Whether a replica has connections yet: nothing more is done with it for now."""
    undoing: bool = False
    left: list[str] = field(default_factory=list)
    """Kernels that undoing could not remove."""


@dataclass(slots=True)
class QueuedEffect:
    """One step that is queued or runs."""

    step: Step
    progress: PartProgress
    attempt: int = 1
    due: float = 0.0
    """Not before this time."""
    began: float = 0.0
    node: str = ""
    """Where it has its effect; empty where that is not one node, or not known."""


class ActionTally:
    """The ends of all actions. An action is done when all its parts are."""

    def __init__(self, actions: tuple[Action, ...], parts: dict[str, ActionPart]) -> None:
        self._actions = actions
        self._left = {action.id: 0 for action in actions}
        for part in parts.values():
            self._left[part.action.id] += 1
        self._started: dict[str, float] = {}
        self._results: dict[str, ActionResult] = {}

    def start(self, action: Action, now: float) -> bool:
        """True the first time."""
        if action.id in self._started:
            return False
        self._started[action.id] = now
        return True

    def part_done(self, action: Action, now: float) -> bool:
        """True when this was the action's last part."""
        self._left[action.id] -= 1
        return self._left[action.id] == 0 and self.end(action, "done", now)

    def end(
        self, action: Action, outcome: Outcome, now: float, *, error: str = "", because: str = "",
        draining: bool = False,
    ) -> bool:  # fmt: skip
        """True unless it has ended already."""
        if action.id in self._results:
            return False
        started = self._started.get(action.id)
        self._results[action.id] = ActionResult(
            action.id,
            action.verb,
            outcome,
            error,
            because,
            started,
            now if started is not None else None,
            draining,
        )
        return True

    @property
    def ended(self) -> int:
        return len(self._results)

    @property
    def total(self) -> int:
        return len(self._actions)

    def results(self) -> tuple[ActionResult, ...]:
        """In the plan's order; what never came to its turn was stopped."""
        return tuple(
            self._results.get(action.id, ActionResult(action.id, action.verb, "stopped"))
            for action in self._actions
        )
