"""Apps: ports of sessions and services that people open by a URL, and programs by a port of a host. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from reconciler.values.apps.ports import NO_PORTS, PortMap, app_key, app_way, has_ports, no_ports
from schemas.kinds.parts.apps import PORT_KINDS, AppAccess, AppRules
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from reconciler.values.apps.standing import ServiceStanding
    from reconciler.values.services.pattern import ServicePattern
    from reconciler.values.state import Existing
    from schemas.kinds.app_proxy import AppProxy
    from schemas.kinds.parts.app_ports import PortKind
    from schemas.kinds.service import Service
    from schemas.kinds.session import Session, SessionPort

BETWEEN = "--"
_LONGEST_LABEL = 63
"""Letters of a label of a host name (RFC 1035)."""
_HASH = 12
_DEFAULT = AppRules()


@dataclass(frozen=True, slots=True)
class App:
    """One app of one session or service. `host`, with the port that browsers name, and `url` are empty where
    it has no port of the AppProxy's host, and `unmapped` says why; `port`: of the main container, as the
    document has it; `kernel`: the main container's id, empty where there is none, and of a service, whose
    replicas take turns. `session`: the name of either."""

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
    kind: Literal["Session", "Service"] = "Session"
    hold: float = 0.0
    """Seconds for which a request waits for a replica of a service that may have none."""
    unmapped: str = ""

    @property
    def identity(self) -> str:
        """Of its session or service."""
        return identity_of(self.kind, self.session, self.project)

    @property
    def incarnation(self) -> str:
        """What a link is made for: this very container; or the service, for as long as its owner is the same.
        Empty where there is none."""
        return f"{self.identity} of {self.owner}" if self.kind == "Service" else self.kernel

    @property
    def ready(self) -> bool:
        """Whether it can be opened."""
        return (self.phase == "RUNNING" or self.hold > 0) and bool(self.incarnation)


def app_label(name: str, session: str, project: str) -> str:
    """What its host name begins with: `jupyter--lab--vision`, or, where a name of its own has `--` or all
    are too long for a label, the beginning of that and a digest of the three."""
    plain = BETWEEN.join((name, session, project))
    if len(plain) <= _LONGEST_LABEL and plain.count(BETWEEN) == 2:
        return plain
    digest = hashlib.sha256("\0".join((name, session, project)).encode()).hexdigest()[:_HASH]
    return f"{plain[: _LONGEST_LABEL - _HASH - 1].replace(BETWEEN, '-').rstrip('-')}-{digest}"


def session_apps(
    proxy: AppProxy, session: Session, existing: Existing | None, ports: PortMap = NO_PORTS
) -> Iterator[App]:
    """Of a session as it is wanted and, where there is one, as it is. `ports`: which ones of the AppProxy's
    host apps have."""
    for port in session.spec.ports:
        wanted = _wanted_app(proxy, session, port, session.identity, ports)
        if wanted is not None:
            yield _as_placed(wanted, existing)


def service_apps(
    proxy: AppProxy, pattern: ServicePattern, standing: ServiceStanding, ports: PortMap = NO_PORTS
) -> Iterator[App]:
    """Of a service as it is wanted, and as its replicas answer."""
    for port in pattern.session.spec.ports:
        app = _wanted_app(proxy, pattern.session, port, pattern.service.identity, ports)
        if app is not None:
            yield replace(
                app, kind="Service", phase=standing.phase, reason=standing.reason, hold=_hold(pattern.service)
            )


def _as_placed(app: App, existing: Existing | None) -> App:
    record = existing.recorded if existing is not None else None
    placed = record.placement.kernels if record is not None and record.placement is not None else ()
    return replace(
        app,
        kernel=record.kernels[0] if record is not None and record.kernels else "",
        node=placed[0].node if placed else "",
        phase=existing.phase if existing is not None else "PENDING",
        reason=existing.reason if existing is not None else "",
    )


def _wanted_app(
    proxy: AppProxy, session: Session, port: SessionPort, identity: str, ports: PortMap
) -> App | None:
    """None for a port that is reached by no URL."""
    project, rules = session.project or "", session.spec.apps.get(port.name)
    way = app_way(proxy.spec, port, rules)
    if not way:
        return None
    url, key = proxy.spec.url_of(app_label(port.name, session.name, project)), app_key(identity, port.name)
    if way == "port":
        number = ports.numbers.get(key, 0)
        mapped = proxy.spec.ports
        url = mapped.url_of(PORT_KINDS[port.protocol], number) if mapped is not None and number else ""
    return App(
        project=project,
        session=session.name,
        name=port.name,
        host=url.partition("//")[2],
        url=url,
        protocol=port.protocol,
        port=port.port,
        access=(rules or _DEFAULT).access,
        owner=session.spec.owner or "",
        unmapped="" if url else ports.refusals.get(key) or _unmapped(proxy, PORT_KINDS[port.protocol]),
    )


def _unmapped(proxy: AppProxy, kind: PortKind) -> str:
    return "it has no port yet" if has_ports(proxy.spec, kind) else no_ports(kind)


def _hold(service: Service) -> float:
    """Only where the autoscaler may leave no replica: elsewhere people are told what is wrong."""
    rules = service.spec.autoscaling
    to_zero = rules is not None and 0 in (rules.min, *(each.min for each in rules.schedule))
    return float(rules.hold) if rules is not None and to_zero else 0.0
