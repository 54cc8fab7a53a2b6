"""Apps of sessions as they are shown: where they are, who may open them, whether they can be opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.values.apps.app import session_apps
from schemas.kinds.parts.apps import APP_PROTOCOLS

if TYPE_CHECKING:
    from reconciler.values.apps.app import App
    from reconciler.values.state import Actual, Desired


def apps_of(desired: Desired, actual: Actual, identity: str) -> tuple[App, ...]:
    """Of a session that documents want, where its cluster has an AppProxy."""
    session = desired.sessions().get(identity)
    proxy = desired.repository.app_proxy_of(desired.cluster)
    if session is None or proxy is None:
        return ()
    return tuple(session_apps(proxy, session, actual.existing.get(identity)))


def app_ports(desired: Desired, identity: str) -> tuple[str, ...]:
    """Names of a session's ports that a URL can lead to, whether or not there is one."""
    session = desired.sessions().get(identity)
    ports = session.spec.ports if session is not None else ()
    return tuple(port.name for port in ports if port.protocol in APP_PROTOCOLS)
