"""What a Notification must fulfil beyond the types of its fields."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.kinds.notification import EmailTarget, NotificationSpec
from schemas.problems.issues import Issue
from schemas.templates.rendering import text_template_issues

EVENT_VARIABLES = (
    "event", "severity", "over", "at", "cluster", "resource", "kind", "project", "name", "what", "actor",
    "commit",
)  # fmt: skip
"""What is known of one event."""
TEMPLATE_VARIABLES = (*EVENT_VARIABLES, "id", "notification", "news", "count", "more", "title", "text")
"""What templates know; `title` and `text` only in `body`."""

_PROJECT_EVENTS = frozenset({"action-failed", "drift", "policy-violated", "quota-reached"})
"""Events that may be of a project, besides those of sessions."""


def notification_rules(spec: NotificationSpec) -> Iterator[Issue]:
    """Every rule that it breaks by itself."""
    if spec.throttle.every == 0:
        yield Issue(("spec", "throttle", "every"), "no time at all", "write 1s or more", "BAI-V032")
    if spec.to.email is not None:
        yield from _email_rules(spec.to.email)
    if (
        spec.projects
        and "all" not in spec.events
        and not any(_is_project_event(each) for each in spec.events)
    ):
        message = "none of these events is of a project"
        yield Issue(("spec", "projects"), message, "leave projects out", "BAI-V034", key=True)
    template = spec.template
    if template.body is not None and spec.to.http is None:
        message = f"a body is written for http, not for {spec.to.kind}"
        yield Issue(("spec", "template", "body"), message, "write text", "BAI-V034", key=True)
    for name in ("title", "text", "body"):
        text = getattr(template, name)
        known = TEMPLATE_VARIABLES if name == "body" else TEMPLATE_VARIABLES[:-2]
        if text is not None:
            yield from text_template_issues(text, known, ("spec", "template", name))


def _email_rules(email: EmailTarget) -> Iterator[Issue]:
    at = ("spec", "to", "email")
    if (email.username_from is None) != (email.password_from is None):
        yield Issue(at, "usernameFrom and passwordFrom go together", "give both or none", "BAI-V034")
    if email.tls == "none" and email.password_from is not None:
        message = "a password is not sent without encryption"
        yield Issue((*at, "tls"), message, "write starttls or tls", "BAI-V034")


def _is_project_event(event: str) -> bool:
    return event.startswith("session-") or event in _PROJECT_EVENTS
