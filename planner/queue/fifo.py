"""First in, first out. How often the head may be passed over is the group's `maxSkips`, see
`planner.queue.skips`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.model.types import SessionRequest
from planner.queue.base import QueueView, arrival


def fifo(pending: Sequence[SessionRequest], view: QueueView) -> Iterator[SessionRequest]:
    yield from sorted(pending, key=arrival)
