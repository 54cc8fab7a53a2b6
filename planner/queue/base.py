"""The seam of queue policies.

A policy orders the sessions of one group within a priority band (bands themselves are not its business:
higher ones come first). It is
asked lazily, so an order may follow from what has been placed meanwhile. Plugins register under the
entry-point group `bai.queue`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from planner.model.plan_time import PlanTime
from planner.model.slots import total
from planner.model.types import GroupInfo, Running, SessionRequest


@dataclass(slots=True)
class QueueView:
    """What a policy may look at. `held` is live: it grows with every session that is placed.

    `capacity`: slots of the whole group; `held`: user → slot → amount, running sessions included.
    """

    group: GroupInfo
    time: PlanTime
    capacity: Mapping[str, int]
    running: Sequence[Running] = ()
    held: dict[str, dict[str, int]] = field(default_factory=dict)
    decayed_usage: Mapping[str, float] = field(default_factory=dict)
    tree: dict[tuple[str, ...], dict[str, int]] = field(default_factory=dict)
    """What is held below each point of the hierarchy: (domain,), (domain, project), (domain, project,
    user)."""

    @property
    def now(self) -> float:
        """Seconds since the epoch. Who asks is asked anew in every plan."""
        return self.time.exactly()

    @property
    def usage(self) -> Mapping[str, float]:
        """Dominant-share seconds of past sessions, by user, decayed to now."""
        self.time.exactly()
        return self.decayed_usage

    def begin(self, time: PlanTime, running: Sequence[Running], decayed_usage: Mapping[str, float]) -> None:
        """Look at the same group at another time."""
        self.time, self.running, self.decayed_usage = time, running, decayed_usage

    def hold(self, session: SessionRequest, sign: int = 1) -> None:
        """Count what a session holds, or with `sign` -1 what it gives back."""
        points = [self.held.setdefault(session.user, {})]
        points += [self.tree.setdefault(point, {}) for point in hierarchy_path(session)]
        for slot, amount in total(kernel.slots for kernel in session.kernels).items():
            for point in points:
                point[slot] = point.get(slot, 0) + sign * amount


class QueuePolicy(Protocol):
    """Makes the order of one band."""

    def __call__(self, pending: Sequence[SessionRequest], view: QueueView) -> Iterator[SessionRequest]:
        """Yield every session of `pending` exactly once, first to be tried first."""
        ...


def hierarchy_path(session: SessionRequest) -> tuple[tuple[str, ...], ...]:
    """Where a session stands in the hierarchy of its domain, project and user, from the top."""
    names = (session.domain, session.project, session.user)
    return names[:1], names[:2], names


def arrival(session: SessionRequest) -> tuple[float, str]:
    """Enqueue time, then id: what decides where a policy does not."""
    return (session.enqueued, session.id)


def priority_bands(pending: Sequence[SessionRequest]) -> list[list[SessionRequest]]:
    """Priority bands, highest first, each in order of arrival."""
    by_priority: dict[int, list[SessionRequest]] = {}
    for session in sorted(pending, key=arrival):
        by_priority.setdefault(session.priority, []).append(session)
    return [by_priority[priority] for priority in sorted(by_priority, reverse=True)]
