"""What the replicas of a service must fulfil beyond what every session must. `pattern` is the session that
they are like; the issues are where they are in the service's document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from schemas.images.session_images import resolve_session_images
from schemas.kinds.service import Probe, Service
from schemas.kinds.session import Session, SessionPort
from schemas.problems.issues import Issue, Loc
from schemas.problems.text import did_you_mean, format_value
from schemas.repository.repository import Repository
from schemas.values.resource_ref import identity_of

TEMPLATE = ("spec", "template")
_REPLICA = re.compile(r"(?P<service>.+)-[0-9a-f]{8}-[0-9]+\Z")
_OF_ONE = {
    "starts_at": ("startsAt", "replicas are kept up from the moment that they are wanted"),
    "timeout": ("timeout", "replicas run until they are not wanted any more"),
    "idle": ("idle", "one that nobody asks for anything is still wanted: `replicas` says how many are"),
    "hold": ("hold", "to run none, write `replicas: 0`; to stay as it is, `update: {paused: true}`"),
}
"""Fields that are about one session, and why they are not about a replica."""


def in_service(issue: Issue) -> Issue:
    """An issue of a pattern, where it is in its service's document."""
    return replace(issue, at=(*TEMPLATE, *issue.at[1:])) if issue.at[:1] == ("spec",) else issue


def template_rules(pattern: Session) -> Iterator[Issue]:
    """What no session may say that there is any number of."""
    spec = pattern.spec
    if spec.type == "batch":
        message = "a batch session ends by itself, and a service's replicas are kept up"
        yield Issue((*TEMPLATE, "type"), message, "write type: inference, or leave it out", "BAI-V034")
        return
    for name, (field, why) in _OF_ONE.items():
        if getattr(spec, name) not in (None, False):
            message = f"{field} is about one session, and a service's replicas are not"
            yield Issue((*TEMPLATE, field), message, why, "BAI-V034", key=True)
    if spec.restart.policy != "always":
        message = (
            f"{spec.restart.policy}: a service's replica that ends is started again, whatever it ends with"
        )
        at: Loc = (*TEMPLATE, "restart", "policy")
        yield Issue(at, message, "write always, or leave it out", "BAI-V034")


def probe_rules(repository: Repository, service: Service, pattern: Session) -> Iterator[Issue]:
    """That probes ask at ports that the main container has, and in words that are understood there."""
    ports = {port.name: port for port in resolve_session_images(pattern.spec, repository.images).ports}
    for name in ("readiness", "liveness"):
        probe: Probe | None = getattr(service.spec, name)
        if probe is not None and probe.http is not None:
            at: Loc = ("spec", name, "http", "port")
            yield from _port_rules(probe.http.port, ports, ("http", "https"), at)
        if probe is not None and probe.tcp is not None:
            tcp = tuple(dict.fromkeys(p.protocol for p in ports.values() if p.protocol != "udp"))
            yield from _port_rules(probe.tcp.port, ports, tcp, ("spec", name, "tcp", "port"))


def _port_rules(
    name: str, ports: dict[str, SessionPort], protocols: tuple[str, ...], at: Loc
) -> Iterator[Issue]:
    fit = [port.name for port in ports.values() if port.protocol in protocols]
    if name not in ports:
        hint = did_you_mean(name, fit) or "add it to the ports of the template"
        yield Issue(at, f"the template has no port {format_value(name)}", hint, "BAI-V040")
    elif name not in fit:
        message = f"port {format_value(name)} speaks {ports[name].protocol}"
        hint = f"name {' or '.join(fit)}" if fit else "ask another way: http, tcp and command are there"
        yield Issue(at, message, hint, "BAI-V050")


def session_name_rules(session: Session, names: frozenset[str] | set[str]) -> Iterator[Issue]:
    """That a session has no name of a service, whose apps would have its URLs, nor one that a replica may
    get; `names`: every identity of the repository."""
    found = _REPLICA.match(session.name)
    for name in (session.name, found["service"] if found else ""):
        other = identity_of("Service", name, session.project)
        if name and other in names:
            of = "has this name already" if name == session.name else "names its replicas so"
            yield Issue(("metadata", "name"), f"{other} {of}", "give the session another name", "BAI-V042")
