"""Apps: ports of a session that people open by a URL."""

from __future__ import annotations

from typing import Literal

from schemas.values.envelope import Model

AppAccess = Literal["owner", "operators", "project", "public"]
ACCESS_LEVELS: tuple[AppAccess, ...] = ("owner", "operators", "project", "public")
"""From the fewest to everybody."""
APP_PROTOCOLS = frozenset({"http", "https"})
"""What a port must speak to be an app."""


class AppRules(Model):
    """What holds for one app beyond its port."""

    access: AppAccess = "operators"
    """Who may open it: the session's `owner` alone; the owner and the project's `operators`, as terminals
    are; everybody who may look at the `project`; or the `public`, without a login, where the AppProxy's
    `widest` allows that."""
