"""Whether a pending session may start now at all, before quotas and nodes are looked at; every reason against
it is collected.
"""

from __future__ import annotations

from planner.types import GroupInfo, Reason, SessionRequest


def obstacles(session: SessionRequest, group: GroupInfo, now: float) -> list[Reason]:
    """Reasons that hold the session back apart from quotas and room on nodes."""
    reasons = []
    if not session.kernels:
        reasons.append(Reason("no-containers", "it has no containers"))
    if session.starts_at is not None and session.starts_at > now:
        reasons.append(Reason("starts-at", f"starts in {seconds_text(session.starts_at - now)}"))
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
    """Seconds in words: `1 h 5 min`."""
    whole = int(amount)
    hours, rest = divmod(whole, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [(hours, "h"), (minutes, "min"), (seconds, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)[:40] or "less than 1 s"
