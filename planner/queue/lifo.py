"""Last in, first out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.model.types import SessionRequest
from planner.queue.base import QueueView


def lifo(pending: Sequence[SessionRequest], view: QueueView) -> Iterator[SessionRequest]:
    yield from sorted(pending, key=lambda session: (-session.enqueued, session.id))
