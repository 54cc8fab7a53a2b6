"""What people are told: one thing that happened, as a value. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from schemas.kinds.notification import CLASSES, NotificationSpec, Severity
from schemas.values.resource_ref import ref_of


@dataclass(frozen=True, slots=True)
class News:
    """One thing that happened, or began to last, or is over. Holds no secrets: it is kept in the store."""

    id: str
    """Where it comes from: the same event has the same id, wherever and however often it is read."""
    event: str
    """A class of `schemas.kinds.notification.CLASSES`, or `test`."""
    cluster: str
    what: str
    at: float
    """Seconds since the epoch."""
    resource: str = ""
    """Identity; empty for the cluster as a whole."""
    project: str = ""
    over: bool = False
    """What lasted is over."""
    severity: Severity = "info"
    actor: str = ""
    commit: str = ""
    waiting: int = 0
    """Of a session that waits: for how many seconds at least."""


def completed(news: News) -> News:
    """With what follows from the rest: words on one line, the project of its resource, the severity of its
    class."""
    return replace(
        news,
        what=truncate(news.what),
        project=news.project or ref_of(news.resource).project,
        severity=CLASSES[news.event].severity,
    )


def resolved(news: News, at: float) -> News:
    """That it is over."""
    return replace(news, id=f"{news.id}/over", over=True, severity="info", at=at)


def is_wanted(news: News, spec: NotificationSpec) -> bool:
    """Whether a Notification tells of it."""
    return (
        (news.event in spec.events or "all" in spec.events)
        and (not spec.projects or news.project in spec.projects)
        and (spec.over or not news.over)
        and news.waiting in (0, spec.waiting)
    )


def truncate(text: str, most: int = 1000) -> str:
    """One line that is not too long."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
