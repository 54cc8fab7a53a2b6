"""Notifications and news to test with."""

from __future__ import annotations

from typing import Any

from reconciler.notify.news import News
from schemas.kinds.notification import Notification
from schemas.loading.documents import parse_resource


def notification(name: str = "ops", **spec: Any) -> Notification:
    """To Slack about everything, unless said otherwise."""
    spec = {"to": {"slack": {"urlFrom": "env/HOOK"}}, "events": ["all"], **spec}
    document = {"apiVersion": "bai/v1", "kind": "Notification", "metadata": {"name": name}, "spec": spec}
    made, issues = parse_resource(document)
    assert isinstance(made, Notification), issues
    return made


def news(number: int, event: str = "session-failed", **fields: Any) -> News:
    return News(
        f"event/{number}", event, "lab", f"main1 exited with {number}", 1_800_000_000.0 + number,
        resource=f"Session/vision/s{number}", project="vision", severity="error", **fields,
    )  # fmt: skip
