"""Apps by the labels of their host names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.values.apps.app import BETWEEN, App, app_label, session_apps
from schemas.kinds.parts.apps import APP_PROTOCOLS
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from reconciler.values.state import Existing
    from schemas.kinds.app_proxy import AppProxy
    from schemas.kinds.session import Session

_PARTS = 3


class AppDirectory:
    """Apps by the labels of their host names, of the sessions of one cluster as they are wanted."""

    def __init__(self, proxy: AppProxy, sessions: Mapping[str, Session]) -> None:
        self.proxy = proxy
        self._sessions = sessions

    def find(self, label: str, resources: Mapping[str, Existing]) -> App | None:
        """`resources`: what is there, by identity."""
        name, session, project = self._names(label)
        identity = identity_of("Session", session, project)
        wanted = self._sessions.get(identity)
        if wanted is None:
            return None
        found = session_apps(self.proxy, wanted, resources.get(identity))
        return next((each for each in found if each.name == name), None)

    def _names(self, label: str) -> tuple[str, str, str]:
        parts = label.split(BETWEEN)
        if len(parts) == _PARTS:
            return parts[0], parts[1], parts[2]
        return self._shortened.get(label, ("", "", ""))

    @cached_property
    def _shortened(self) -> Mapping[str, tuple[str, str, str]]:
        """Of those whose label is not made of their names alone."""
        found = {}
        for session in self._sessions.values():
            for port in session.spec.ports:
                names = port.name, session.name, session.project or ""
                if port.protocol in APP_PROTOCOLS and app_label(*names) != BETWEEN.join(names):
                    found[app_label(*names)] = names
        return found
