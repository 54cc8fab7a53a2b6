"""Which port of their AppProxy's host apps have. Pure.

Whoever has a port keeps it, for as long as its session or service is there and its document names no other.
Then come those whose documents name one, then all others, each with the lowest that is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from schemas.kinds.parts.app_ports import AppPorts, PortKind, span_text
from schemas.kinds.parts.apps import PORT_KINDS, AppRules
from schemas.values.envelope import SERVICE_LABEL
from schemas.values.once_per_value import last_per_value, once_per_value

if TYPE_CHECKING:
    from reconciler.values.state import Actual, Desired
    from schemas.kinds.app_proxy import AppProxySpec
    from schemas.kinds.session import Session, SessionPort

_DEFAULT = AppRules()


def app_key(identity: str, name: str) -> str:
    """Of an app of a session or service, as what is remembered names it."""
    return f"{identity} {name}"


@dataclass(frozen=True, slots=True)
class PortWish:
    """An app that is to have a port of the host: `number`, or any where that is 0."""

    key: str
    kind: PortKind
    number: int = 0


@dataclass(frozen=True)
class PortMap:
    """By the keys of apps: which port each has, and why others have none."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)

    @once_per_value
    def owners(self) -> Mapping[int, str]:
        """Port → key of its app."""
        return {number: key for key, number in self.numbers.items()}


NO_PORTS = PortMap()


def app_way(spec: AppProxySpec, port: SessionPort, rules: AppRules | None) -> Literal["", "name", "port"]:
    """How a port is reached through the AppProxy; empty where it is not."""
    kind = PORT_KINDS.get(port.protocol)
    if kind == "tcp":
        return "port" if rules is not None and rules.access == "public" else ""
    if kind is None:
        return ""
    by_port = spec.url is None or (rules is not None and rules.port is not None)
    return "port" if by_port else "name"


def has_ports(spec: AppProxySpec, kind: PortKind) -> bool:
    """Whether apps of this kind can have any."""
    return spec.ports is not None and kind in spec.ports.ranges


def no_ports(kind: PortKind) -> str:
    """Why an app has none where there are none of its kind."""
    return f"the AppProxy has no ports for {kind}"


def port_map(desired: Desired, actual: Actual) -> PortMap:
    """Of the apps of a cluster as they are wanted, with what is remembered of it."""
    proxy = desired.repository.app_proxy_of(desired.cluster)
    if proxy is None or proxy.spec.ports is None:
        return NO_PORTS
    existing = actual.existing.get(proxy.identity)
    return _of_wishes(desired, existing.recorded.app_ports if existing is not None else {})


@last_per_value
def _of_wishes(desired: Desired, remembered: Mapping[str, int]) -> PortMap:
    proxy = desired.repository.app_proxy_of(desired.cluster)
    if proxy is None or proxy.spec.ports is None:
        return NO_PORTS
    return assign(proxy.spec.ports, _wishes(desired), remembered)


@once_per_value
def _wishes(desired: Desired) -> tuple[PortWish, ...]:
    proxy = desired.repository.app_proxy_of(desired.cluster)
    if proxy is None:
        return ()
    found: list[PortWish] = []
    for identity, session in desired.sessions().items():
        if SERVICE_LABEL not in session.metadata.labels:  # Replicas have their service's.
            found += _session_wishes(proxy.spec, identity, session)
    for identity, pattern in desired.services.items():
        found += _session_wishes(proxy.spec, identity, pattern.session)
    return tuple(sorted(found, key=lambda wish: wish.key))


def _session_wishes(spec: AppProxySpec, identity: str, session: Session) -> Iterator[PortWish]:
    if spec.url is not None and not session.spec.apps:
        return  # Nearly all, where apps have names.
    for port in session.spec.ports:
        rules = session.spec.apps.get(port.name)
        if app_way(spec, port, rules) == "port":
            if rules is None and not has_ports(spec, PORT_KINDS[port.protocol]):
                continue  # Nobody has asked for one.
            named = (rules or _DEFAULT).port
            number = named if isinstance(named, int) else 0
            yield PortWish(app_key(identity, port.name), PORT_KINDS[port.protocol], number)


def assign(ports: AppPorts, wishes: tuple[PortWish, ...], remembered: Mapping[str, int]) -> PortMap:
    """`wishes`: in order of their keys; `remembered`: key to port."""
    numbers: dict[str, int] = {}
    owners: dict[int, str] = {}
    refusals: dict[str, str] = {}

    def give(wish: PortWish, number: int) -> None:
        numbers[wish.key], owners[number] = number, wish.key

    for wish in wishes:
        held = remembered.get(wish.key, 0)
        if wish.number in (0, held) and _has(ports, wish.kind, held) and held not in owners:
            give(wish, held)
    for wish in wishes:
        if wish.number and wish.key not in numbers:
            if not _has(ports, wish.kind, wish.number):
                refusals[wish.key] = f"{wish.number} is none of the AppProxy's ports for {wish.kind}"
            elif wish.number in owners:  # Whose is not for everybody who reads this.
                refusals[wish.key] = f"port {wish.number} is another app's"
            else:
                give(wish, wish.number)
    free = {
        kind: iter([n for n in range(first, last + 1) if n not in owners])
        for kind, (first, last) in ports.ranges.items()
    }
    for wish in wishes:
        if not wish.number and wish.key not in numbers:
            if wish.kind not in free:
                refusals[wish.key] = no_ports(wish.kind)
            elif number := next(free[wish.kind], 0):
                give(wish, number)
            else:
                refusals[wish.key] = (
                    f"all ports for {wish.kind}, {span_text(ports.ranges[wish.kind])}, are taken"
                )
    return PortMap(numbers, refusals)


def _has(ports: AppPorts, kind: PortKind, number: int) -> bool:
    span = ports.ranges.get(kind)
    return span is not None and span[0] <= number <= span[1]
