"""Fair share with decay: the user who used least lately goes next.

Use is dominant share times seconds; what lies a half-life back counts half (`halfLife`, seconds, default one
week). What past sessions used
comes with the snapshot (`usage`, already decayed to now); what runs is added from its start, and what this
plan places counts as if it had
held for one half-life, so that one plan does not give everything to one user. Divided by the user's weight
(`weights`, default 1).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence

from planner.admission.quota import requested_slots
from planner.model.types import SessionRequest
from planner.queue.base import QueueView, arrival
from planner.queue.dominant_share import dominant_share, user_dominant_share, user_weights

DEFAULT_HALF_LIFE = 7 * 86_400.0


def fair_share(pending: Sequence[SessionRequest], view: QueueView) -> Iterator[SessionRequest]:
    weights = user_weights(view)
    half_life = _half_life(view)
    waiting: dict[str, deque[SessionRequest]] = {}
    for session in sorted(pending, key=arrival):
        waiting.setdefault(session.user, deque()).append(session)
    past = {user: _past_use(view, user, half_life) for user in waiting}
    at_start = {user: user_dominant_share(view, user) for user in waiting}

    def use(user: str) -> float:
        placed = float(user_dominant_share(view, user) - at_start[user])
        return (past[user] + placed * half_life) / float(weights.get(user, 1))

    while waiting:
        user = min(waiting, key=lambda one: (use(one), arrival(waiting[one][0])))
        yield waiting[user].popleft()
        if not waiting[user]:
            del waiting[user]


def _past_use(view: QueueView, user: str, half_life: float) -> float:
    """Decayed share-seconds up to now: history, and the integral of the decay over each running session's
    time.
    """
    parts = [view.usage.get(user, 0.0)]
    rate = math.log(2) / half_life
    for one in view.running:
        if one.request.user == user and one.started is not None:
            age = max(0.0, view.now - one.started)
            parts.append(
                float(dominant_share(view, requested_slots(one.request))) * (1 - math.exp(-rate * age)) / rate
            )
    return math.fsum(parts)  # the same whatever the order in which they are found


def _half_life(view: QueueView) -> float:
    given = view.group.queue_options.get("halfLife")
    return float(given) if isinstance(given, int | float) and given > 0 else DEFAULT_HALF_LIFE
