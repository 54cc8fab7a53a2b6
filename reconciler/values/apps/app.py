"""Apps: ports of sessions that people open by a URL. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.kinds.parts.apps import APP_PROTOCOLS, AppAccess, AppRules
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from reconciler.values.state import Existing
    from schemas.kinds.app_proxy import AppProxy
    from schemas.kinds.session import Session, SessionPort

BETWEEN = "--"
_LONGEST_LABEL = 63
"""Letters of a label of a host name (RFC 1035)."""
_HASH = 12
_DEFAULT = AppRules()


@dataclass(frozen=True, slots=True)
class App:
    """One app of one session. `host`: with the port that browsers name; `port`: of its main container, as
    the document has it; `kernel`: the main container's id, empty where there is none."""

    project: str
    session: str
    name: str
    host: str
    url: str
    protocol: str
    port: int
    access: AppAccess
    owner: str
    kernel: str = ""
    node: str = ""
    phase: str = "PENDING"
    reason: str = ""

    @property
    def identity(self) -> str:
        """Of its session."""
        return identity_of("Session", self.session, self.project)


def app_label(name: str, session: str, project: str) -> str:
    """What its host name begins with: `jupyter--lab--vision`, or, where a name of its own has `--` or all
    are too long for a label, the beginning of that and a digest of the three."""
    plain = BETWEEN.join((name, session, project))
    if len(plain) <= _LONGEST_LABEL and plain.count(BETWEEN) == 2:
        return plain
    digest = hashlib.sha256("\0".join((name, session, project)).encode()).hexdigest()[:_HASH]
    return f"{plain[: _LONGEST_LABEL - _HASH - 1].replace(BETWEEN, '-').rstrip('-')}-{digest}"


def session_apps(proxy: AppProxy, session: Session, existing: Existing | None) -> Iterator[App]:
    """Of a session as it is wanted and, where there is one, as it is."""
    for port in session.spec.ports:
        if port.protocol in APP_PROTOCOLS:
            yield _app(proxy, session, port, existing)


def _app(proxy: AppProxy, session: Session, port: SessionPort, existing: Existing | None) -> App:
    project = session.project or ""
    url = proxy.spec.url_of(app_label(port.name, session.name, project))
    record = existing.recorded if existing is not None else None
    placed = record.placement.kernels if record is not None and record.placement is not None else ()
    return App(
        project=project,
        session=session.name,
        name=port.name,
        host=url.partition("//")[2],
        url=url,
        protocol=port.protocol,
        port=port.port,
        access=session.spec.apps.get(port.name, _DEFAULT).access,
        owner=session.spec.owner or "",
        kernel=record.kernels[0] if record is not None and record.kernels else "",
        node=placed[0].node if placed else "",
        phase=existing.phase if existing is not None else "PENDING",
        reason=existing.reason if existing is not None else "",
    )
