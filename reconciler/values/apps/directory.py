"""Apps by the labels of their host names. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.values.apps.app import BETWEEN, App, app_label, service_apps, session_apps
from reconciler.values.apps.standing import standing_of
from schemas.kinds.parts.apps import APP_PROTOCOLS
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from reconciler.values.apps.standing import ServiceStanding
    from reconciler.values.services.pattern import ServicePattern
    from reconciler.values.state import Existing
    from schemas.kinds.app_proxy import AppProxy
    from schemas.kinds.session import Session

_PARTS = 3


class AppDirectory:
    """Apps by the labels of their host names, of the sessions and services of one cluster as they are
    wanted."""

    def __init__(
        self, proxy: AppProxy, sessions: Mapping[str, Session], services: Mapping[str, ServicePattern]
    ) -> None:
        self.proxy = proxy
        self._sessions, self._services = sessions, services

    def find(
        self, label: str, resources: Mapping[str, Existing], standings: Mapping[str, ServiceStanding]
    ) -> App | None:
        """`resources`: what is there, `standings`: how services answer, both by identity. A session comes
        before a service of its name."""
        name, session, project = self._names(label)
        identity = identity_of("Session", session, project)
        wanted = self._sessions.get(identity)
        found: Iterable[App] = ()
        if wanted is not None:
            found = session_apps(self.proxy, wanted, resources.get(identity))
        elif pattern := self._services.get(identity_of("Service", session, project)):
            standing = standings.get(pattern.service.identity) or standing_of(None)
            found = service_apps(self.proxy, pattern, standing)
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
        for session in (*(each.session for each in self._services.values()), *self._sessions.values()):
            for port in session.spec.ports:
                names = port.name, session.name, session.project or ""
                if port.protocol in APP_PROTOCOLS and app_label(*names) != BETWEEN.join(names):
                    found[app_label(*names)] = names
        return found
