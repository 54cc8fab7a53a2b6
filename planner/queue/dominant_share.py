"""The dominant share (Ghodsi et al., NSDI'11): the largest part of a group's capacity that an amount of slots
takes. Weights divide the shares of users."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from planner.queue.base import QueueView


def user_dominant_share(view: QueueView, user: str) -> Fraction:
    """The largest of the user's shares over all slots that the group has."""
    return dominant_share(view, view.held.get(user, {}))


def dominant_share(view: QueueView, held: Mapping[str, int]) -> Fraction:
    """The dominant share of an amount of slots."""
    shares = [
        Fraction(amount, view.capacity[slot])
        for slot, amount in held.items()
        if view.capacity.get(slot, 0) > 0
    ]
    return max(shares, default=Fraction(0))


def user_weights(view: QueueView) -> Mapping[str, Fraction]:
    """`weights` of the group's queue options: user (or `user/<name>`) → positive number."""
    given = view.group.queue_options.get("weights")
    if not isinstance(given, Mapping):
        return {}
    return {
        str(user).removeprefix("user/"): Fraction(str(weight))
        for user, weight in given.items()
        if isinstance(weight, int | float) and weight > 0
    }
