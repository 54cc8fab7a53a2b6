"""What an apply tells of itself, once what it tells of is written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reconciler.apply.action_graph import ActionPart
from reconciler.apply.progress import ActionTally
from reconciler.apply.steps import Step
from reconciler.values.clock import Clock
from reconciler.values.results import ApplyEvent


class EventQueue:
    """Events in their order, until `flush`."""

    def __init__(self, on_event: Callable[[ApplyEvent], None], clock: Clock, tally: ActionTally) -> None:
        self._on_event = on_event
        self._clock = clock
        self._tally = tally
        self._events: list[ApplyEvent] = []

    def add(self, part: ActionPart, event: ApplyEvent, step: Step | None = None) -> None:
        """An event of this part, or of one step of it; its action, and how far the whole has come, are
        filled in, with the time."""
        action = part.action
        self._events.append(
            replace(
                event,
                at=self._clock.now(),
                action=action.id,
                verb="provision" if action.provision else action.verb,
                step=f"{step.kind} {step.kernel_id}" if step else "",
                kernel=step.kernel_id if step else "",
                done=self._tally.ended,
                total=self._tally.total,
            )
        )

    def flush(self) -> None:
        """Tell all of them, each once."""
        events, self._events = self._events, []
        for each in events:
            self._on_event(each)
