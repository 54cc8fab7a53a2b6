"""Apps of sessions and services as they are shown: where they are, who may open them, whether they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.values.apps.app import service_apps, session_apps
from reconciler.values.apps.standing import observed_standing
from schemas.kinds.parts.apps import APP_PROTOCOLS

if TYPE_CHECKING:
    from reconciler.values.apps.app import App
    from reconciler.values.state import Actual, Desired


def apps_of(desired: Desired, actual: Actual, identity: str) -> tuple[App, ...]:
    """Of a session or service that documents want, where its cluster has an AppProxy."""
    proxy = desired.repository.app_proxy_of(desired.cluster)
    if proxy is None:
        return ()
    if (pattern := desired.services.get(identity)) is not None:
        return tuple(service_apps(proxy, pattern, observed_standing(identity, actual)))
    session = desired.sessions().get(identity)
    return tuple(session_apps(proxy, session, actual.existing.get(identity))) if session is not None else ()


def app_ports(desired: Desired, identity: str) -> tuple[str, ...]:
    """Names of a session's or service's ports that a URL can lead to, whether or not there is one."""
    pattern = desired.services.get(identity)
    session = pattern.session if pattern is not None else desired.sessions().get(identity)
    ports = session.spec.ports if session is not None else ()
    return tuple(port.name for port in ports if port.protocol in APP_PROTOCOLS)
