"""Whether a pending session may start now at all, before quotas and nodes are looked at; every reason against
it is collected.
"""

from __future__ import annotations

from datetime import UTC, datetime

from planner.model.plan_time import PlanTime
from planner.model.types import GroupInfo, Reason, SessionRequest


def ineligibility_reasons(session: SessionRequest, group: GroupInfo, time: PlanTime) -> list[Reason]:
    """Reasons that hold the session back apart from quotas and room on nodes."""
    reasons = []
    if not session.kernels:
        reasons.append(Reason("no-containers", "it has no containers"))
    if session.starts_at is not None and not time.passed(session.starts_at):
        reasons.append(Reason("starts-at", f"starts at {moment_text(session.starts_at)}"))
    reasons.extend(Reason("dependency", f"waits for {name}") for name in session.blocked_by)
    if group.allowed_types is not None and session.type not in group.allowed_types:
        allowed = ", ".join(sorted(group.allowed_types)) or "none"
        reasons.append(
            Reason("type", f"group {group.name} allows {allowed} sessions; this one is {session.type}")
        )
    if group.allowed_projects is not None and session.project not in group.allowed_projects:
        reasons.append(
            Reason("project", f"group {group.name} is not open to project {session.project or '(none)'}")
        )
    return reasons


def seconds_text(amount: float) -> str:
    """Seconds in words, the two largest units: `1 h 5 min`, `26338 days`."""
    days, rest = divmod(int(amount), 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [(days, "day" if days == 1 else "days"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    largest = next((at for at, (count, _) in enumerate(parts) if count), len(parts))
    told = parts[largest : largest + (1 if days > 99 else 2)]
    return " ".join(f"{count} {unit}" for count, unit in told if count) or "less than 1 s"


def moment_text(seconds: float) -> str:
    """Seconds since the epoch as a time of UTC, to the minute."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "a time beyond the calendar"
