"""Apps by the labels of their host names, and by ports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.values.apps.app import BETWEEN, App, app_label, service_apps, session_apps
from reconciler.values.apps.ports import NO_PORTS, PortMap
from reconciler.values.apps.standing import standing_of
from schemas.values.app_protocols import APP_PROTOCOLS
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from reconciler.values.apps.standing import ServiceStanding
    from reconciler.values.services.pattern import ServicePattern
    from reconciler.values.state import Existing
    from schemas.kinds.app_proxy import AppProxy
    from schemas.kinds.session import Session

_PARTS = 3


class AppDirectory:
    """Apps of the sessions and services of one cluster as they are wanted. `ports`: which ones of its
    AppProxy's host they have."""

    def __init__(
        self, proxy: AppProxy, sessions: Mapping[str, Session], services: Mapping[str, ServicePattern],
        ports: PortMap = NO_PORTS,
    ) -> None:  # fmt: skip
        self.proxy, self.ports = proxy, ports
        self._sessions, self._services = sessions, services

    def find(
        self, label: str, resources: Mapping[str, Existing], standings: Mapping[str, ServiceStanding]
    ) -> App | None:
        """`resources`: what is there, `standings`: how services answer, both by identity. A session comes
        before a service of its name."""
        return self.named(*self._names(label), resources, standings)

    def at_port(
        self, number: int, resources: Mapping[str, Existing], standings: Mapping[str, ServiceStanding]
    ) -> App | None:
        """The app that has this port of the AppProxy's host."""
        identity, _, name = self.ports.owners().get(number, "").partition(" ")
        if not name:
            return None
        ref = ref_of(identity)
        return self.named(name, ref.name, ref.project, resources, standings)

    def named(
        self, name: str, session: str, project: str,
        resources: Mapping[str, Existing], standings: Mapping[str, ServiceStanding],
    ) -> App | None:  # fmt: skip
        """The app of this name of a session or service."""
        identity = identity_of("Session", session, project)
        wanted = self._sessions.get(identity)
        found: Iterable[App] = ()
        if wanted is not None:
            found = session_apps(self.proxy, wanted, resources.get(identity), self.ports)
        elif pattern := self._services.get(identity_of("Service", session, project)):
            standing = standings.get(pattern.service.identity) or standing_of(None)
            found = service_apps(self.proxy, pattern, standing, self.ports)
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
