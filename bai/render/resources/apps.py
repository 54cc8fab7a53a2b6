"""Apps in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bai.render.humanize import clean

if TYPE_CHECKING:
    from reconciler.values.apps.app import App


def app_state(app: App) -> str:
    """`ready`, else the phase of its session."""
    return "ready" if app.phase == "RUNNING" else app.phase or "PENDING"


def openers(app: App) -> str:
    """Who may open it, in words."""
    owner = f"its owner {app.owner}" if app.owner else "its owner"
    match app.access:
        case "owner":
            return f"{owner} alone"
        case "operators":
            return f"{owner} and operators of {app.project}"
        case "project":
            return f"whoever may look at {app.project}"
        case _:
            return "everybody, without a login"


def app_lines(apps: Iterable[App]) -> list[str]:
    """A line for each."""
    return [f"{clean(app.name)}  {app.url}  {app_state(app)}, for {clean(openers(app))}" for app in apps]


def apps_json(apps: Iterable[App]) -> list[dict[str, object]]:
    """For programs."""
    return [{"name": app.name, "url": app.url, "access": app.access} for app in apps]
