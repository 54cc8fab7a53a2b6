"""Apps in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def app_place(app: App) -> str:
    """Its URL; why it has none, otherwise."""
    return app.url or clean(f"no port: {app.unmapped}")


def unbound_port(app: App, unbound: Mapping[int, str]) -> str:
    """That the server could not listen at its port, and why; empty where it could. `unbound`: port to why."""
    number = app.url.rpartition(":")[2]
    why = unbound.get(int(number)) if number.isdecimal() else None
    return f"the server cannot listen at port {number}: {why}" if why else ""


def app_lines(apps: Iterable[App]) -> list[str]:
    """A line for each."""
    return [
        f"{clean(app.name)}  {app_place(app)}  {app_state(app)}, for {clean(openers(app))}" for app in apps
    ]


def apps_json(apps: Iterable[App]) -> list[dict[str, object]]:
    """For programs."""
    return [_app_json(app) for app in apps]


def _app_json(app: App) -> dict[str, object]:
    shown: dict[str, object] = {
        "name": app.name, "url": app.url, "protocol": app.protocol, "access": app.access,
    }  # fmt: skip
    return shown | ({"unmapped": app.unmapped} if app.unmapped else {})
