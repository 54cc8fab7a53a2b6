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
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from planner.model.types import SessionRequest
from planner.queue.base import QueueView, arrival


def drf(pending: Sequence[SessionRequest], view: QueueView) -> Iterator[SessionRequest]:
    if view.group.queue_options.get("hierarchy") is True:
        from planner.queue.hierarchy import hierarchical

        yield from hierarchical(pending, view)
        return
    weights = weights_of(view)
    waiting: dict[str, deque[SessionRequest]] = {}
    for session in sorted(pending, key=arrival):
        waiting.setdefault(session.user, deque()).append(session)
    shares = {user: dominant_share(view, user) / weights.get(user, 1) for user in waiting}
    while waiting:
        user = min(waiting, key=lambda one: (shares[one], arrival(waiting[one][0])))
        yield waiting[user].popleft()
        shares[user] = dominant_share(view, user) / weights.get(user, 1)
        if not waiting[user]:
            del waiting[user]


def dominant_share(view: QueueView, user: str) -> Fraction:
    """The largest of the user's shares over all slots that the group has."""
    return share_of(view, view.held.get(user, {}))


def share_of(view: QueueView, held: Mapping[str, int]) -> Fraction:
    """The dominant share of an amount of slots."""
    shares = [
        Fraction(amount, view.capacity[slot])
        for slot, amount in held.items()
        if view.capacity.get(slot, 0) > 0
    ]
    return max(shares, default=Fraction(0))


def weights_of(view: QueueView) -> Mapping[str, Fraction]:
    """`weights` of the group's queue options: user (or `user/<name>`) → positive number."""
    given = view.group.queue_options.get("weights")
    if not isinstance(given, Mapping):
        return {}
    return {
        str(user).removeprefix("user/"): Fraction(str(weight))
        for user, weight in given.items()
        if isinstance(weight, int | float) and weight > 0
    }
