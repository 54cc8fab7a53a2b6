"""Who is charged for what a plan places, and at which rate. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.model.uses import GroupUse
from reconciler.plan.context import PlanContext
from reconciler.plan.planner_values import group_info, session_request
from reconciler.values.accounting import account_of
from reconciler.values.plan import Action


def charge_accounts(
    context: PlanContext, actions: Iterable[Action], uses: Iterable[GroupUse]
) -> tuple[Action, ...]:
    """The actions, where those after which a session runs say whose account it goes on."""
    known = {use.group: use for use in uses}
    sessions = context.desired.sessions()
    found = []
    for action in actions:
        if action.before is action.after:
            found.append(action)
            continue
        after, session = action.session_after, sessions.get(action.id)
        group = context.desired.groups.get(after.placement.group) if after and after.placement else None
        use = known.get(group.name) if group else None
        if session and group and use and after and after.phase == "RUNNING" and action.verb != "no-op":
            whose = account_of(session_request(session, context.desired.repository), group_info(group), use)
            action = replace(action, after=replace(after, account=whose))
        found.append(action)
    return tuple(found)
