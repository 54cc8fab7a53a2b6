"""Apps of sessions and services as they are shown: where they are, who may open them, whether they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.values.apps.app import service_apps, session_apps
from reconciler.values.apps.ports import port_map
from reconciler.values.apps.standing import observed_standing
from schemas.kinds.parts.apps import PORT_KINDS
from schemas.values.app_protocols import APP_PROTOCOLS

if TYPE_CHECKING:
    from reconciler.values.apps.app import App
    from reconciler.values.state import Actual, Desired


def apps_of(desired: Desired, actual: Actual, identity: str) -> tuple[App, ...]:
    """Of a session or service that documents want, where its cluster has an AppProxy."""
    proxy = desired.repository.app_proxy_of(desired.cluster)
    if proxy is None:
        return ()
    ports = port_map(desired, actual)
    if (pattern := desired.services.get(identity)) is not None:
        return tuple(service_apps(proxy, pattern, observed_standing(identity, actual), ports))
    session = desired.sessions().get(identity)
    if session is None:
        return ()
    return tuple(session_apps(proxy, session, actual.existing.get(identity), ports))


def app_ports(desired: Desired, identity: str) -> tuple[str, ...]:
    """Names of a session's or service's ports that a URL can lead to, whether or not there is one."""
    pattern = desired.services.get(identity)
    session = pattern.session if pattern is not None else desired.sessions().get(identity)
    if session is None:
        return ()
    public = {name for name, rules in session.spec.apps.items() if rules.access == "public"}
    return tuple(
        port.name
        for port in session.spec.ports
        if port.protocol in APP_PROTOCOLS or (port.protocol in PORT_KINDS and port.name in public)
    )
