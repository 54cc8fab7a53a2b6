"""What users are charged for: the dominant share of what a session held, for as long as it held it. Pure.

Only what is over is on an account; what runs is counted by the planner from its start.
"""

from __future__ import annotations

from planner.admission.quota import requested_slots
from planner.model.plan_time import PlanTime
from planner.model.types import GroupInfo, SessionRequest
from planner.model.uses import GroupUse
from planner.queue.base import QueueView
from planner.queue.dominant_share import dominant_share
from planner.queue.fair_share import DEFAULT_HALF_LIFE
from reconciler.values.records import HOLDING, Account, Allocation, Charge, Recorded
from reconciler.values.usage.allocations import closed_allocations, is_held


def account_of(wanted: SessionRequest, group: GroupInfo, use: GroupUse) -> Account:
    """Whom a placement in this group is charged to, and at which rate."""
    share = float(dominant_share(QueueView(group, PlanTime(0.0), use.capacity), requested_slots(wanted)))
    given = group.queue_options.get("halfLife")
    half_life = float(given) if isinstance(given, int | float) and given > 0 else DEFAULT_HALF_LIFE
    return Account(wanted.user, share, half_life)


def account_changes(
    old: Recorded | None, new: Recorded | None, now: float
) -> tuple[Charge | Allocation, ...]:
    """What is written down of what was held when `new` (None: nothing) takes the place of `old`: for the
    user's account, and for reports."""
    return (*_charges(old, new, now), *closed_allocations(old, new, now))


def _charges(old: Recorded | None, new: Recorded | None, now: float) -> tuple[Charge, ...]:
    """The charge that is due when `new` (None: nothing) takes the place of `old`."""
    if old is None or old.account is None or old.started_at is None or not is_held(old):
        return ()
    same = new is not None and new.generation == old.generation
    if new is not None and same and new.phase in HOLDING:
        return ()
    ended = new.finished_at if new is not None and same and new.finished_at is not None else now
    return (Charge(old.account, old.started_at, max(old.started_at, ended)),)
