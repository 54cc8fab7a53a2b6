"""Dominant resource fairness (Ghodsi et al., NSDI'11): the user with the smallest dominant share goes next.

A user's share of a slot is the sum of what all of the user's sessions hold, over the group's capacity; slots
without capacity are
ignored. Shares are divided by the user's weight (`weights: {user: 2}`, default 1) and looked at again after
every placement. They are
compared as exact fractions. With `hierarchy: true` domains and projects come before users, see
`planner.queue.hierarchy`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from planner.model.types import SessionRequest
from planner.queue.base import QueueView, arrival
from planner.queue.dominant_share import user_dominant_share, user_weights
from planner.queue.hierarchy import hierarchical_drf


def drf(pending: Sequence[SessionRequest], view: QueueView) -> Iterator[SessionRequest]:
    if view.group.queue_options.get("hierarchy") is True:
        yield from hierarchical_drf(pending, view)
        return
    weights = user_weights(view)
    waiting: dict[str, deque[SessionRequest]] = {}
    for session in sorted(pending, key=arrival):
        waiting.setdefault(session.user, deque()).append(session)
    shares = {user: user_dominant_share(view, user) / weights.get(user, 1) for user in waiting}
    while waiting:
        user = min(waiting, key=lambda one: (shares[one], arrival(waiting[one][0])))
        yield waiting[user].popleft()
        shares[user] = user_dominant_share(view, user) / weights.get(user, 1)
        if not waiting[user]:
            del waiting[user]
