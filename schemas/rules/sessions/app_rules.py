"""What apps and the URLs they are opened at must fulfil."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.images.session_images import resolve_session_images
from schemas.kinds.app_proxy import AppProxy
from schemas.kinds.parts.app_ports import PortKind, overlap, span_text
from schemas.kinds.parts.apps import ACCESS_LEVELS, PORT_KINDS
from schemas.kinds.session import Session
from schemas.problems.issues import Issue, Loc
from schemas.problems.text import did_you_mean, format_value
from schemas.repository.repository import Repository
from schemas.repository.storage_nodes import is_this_machine
from schemas.values.resource_ref import identity_of


def app_proxy_rules(repository: Repository, proxy: AppProxy) -> Iterator[Issue]:
    """A cluster's apps have one place, and no other cluster's have the same; the later is told. Where they
    come in by a node, it is another machine of the cluster, and means the same URL."""
    yield from _node_rules(repository, proxy)
    yield from _host_rules(repository, proxy)
    for other in repository.of(AppProxy):
        if other.name == proxy.name:
            return
        if repository.cluster_of(other) == repository.cluster_of(proxy):
            message = f"{other.identity} says already where apps of this cluster are"
            yield Issue(("spec", "cluster"), message, "leave one of the two out", "BAI-V043")
            return
        if other.spec.url and proxy.spec.url and _overlap(other.spec.domain, proxy.spec.domain):
            message = f"names below {other.spec.domain} are of {other.identity} already"
            hint = "give each cluster's apps a domain of their own, none within another"
            yield Issue(("spec", "url"), message, hint, "BAI-V050")
            return
        yield from _range_rules(other, proxy)


def _host_rules(repository: Repository, proxy: AppProxy) -> Iterator[Issue]:
    """A host within the domain of apps by name would get cookies that those set for all of it."""
    if proxy.spec.ports is None:
        return
    host = proxy.spec.ports.host
    for other in repository.of(AppProxy):
        if other.spec.url and f".{host}".endswith(f".{other.spec.domain}"):
            message = f"names below {other.spec.domain} are those of apps, by {other.identity}"
            hint = "name a host outside of that domain"
            yield Issue(("spec", "ports", "host"), message, hint, "BAI-V050")
            return


def _range_rules(other: AppProxy, proxy: AppProxy) -> Iterator[Issue]:
    """One server may listen for both clusters, and knows an app by its port alone."""
    if other.spec.ports is None or proxy.spec.ports is None:
        return
    for kind, span in proxy.spec.ports.ranges.items():
        for taken in other.spec.ports.ranges.values():
            if overlap(span, taken):
                message = f"ports {span_text(taken)} are of {other.identity} already"
                hint = "give each cluster's apps ports of their own"
                yield Issue(("spec", "ports", kind), message, hint, "BAI-V050")


def _node_rules(repository: Repository, proxy: AppProxy) -> Iterator[Issue]:
    node = repository.machines.get(identity_of("Node", proxy.spec.node)) if proxy.spec.node else None
    if node is None:
        return
    at: Loc = ("spec", "node")
    if repository.cluster_of(node) != repository.cluster_of(proxy):
        message = f"{node.identity} is of another cluster"
        yield Issue(at, message, "name a node of this AppProxy's cluster", "BAI-V050")
    elif is_this_machine(node):
        message = f"{node.identity} is the machine of bai itself"
        yield Issue(at, message, "leave it out: `bai serve --apps-listen` listens there", "BAI-V050")
    profile = repository.profile_of(node)
    section = profile.spec.app_proxy if profile is not None else None
    if profile is not None and section is not None and section.url != proxy.spec.url:
        message = f"{profile.identity} of {node.identity} says {section.url}"
        yield Issue(("spec", "url"), message, "write the same in spec.appProxy.url there", "BAI-V050")


def _overlap(one: str, other: str) -> bool:
    return f".{one}".endswith(f".{other}") or f".{other}".endswith(f".{one}")


def session_app_rules(repository: Repository, session: Session, proxy: AppProxy | None) -> Iterator[Issue]:
    """That what has rules is an app, that no more people may open it than the cluster allows, and that a
    port that it names is there."""
    if not session.spec.apps:
        return
    ports = resolve_session_images(session.spec, repository.images).ports
    kinds = {port.name: PORT_KINDS[port.protocol] for port in ports if port.protocol in PORT_KINDS}
    for name, rules in session.spec.apps.items():
        if name not in kinds:
            other = next((port.protocol for port in ports if port.name == name), "")
            message = f"port {format_value(name)} speaks {other}, which is no app's" if other else (
                f"there is no port {format_value(name)}"
            )  # fmt: skip
            hint = did_you_mean(name, kinds) or "name one of its ports with protocol http, https, grpc or tcp"
            yield Issue(("spec", "apps", name), message, hint, "BAI-V040", key=True)
        elif kinds[name] == "tcp" and rules.access != "public":
            message = f"port {format_value(name)} is raw TCP, which has no login"
            hint = "write access: public, or leave it out here and use `bai port-forward`"
            yield Issue(("spec", "apps", name), message, hint, "BAI-V050", key=True)
        elif proxy is not None and ACCESS_LEVELS.index(rules.access) > ACCESS_LEVELS.index(proxy.spec.widest):
            message = f"{proxy.identity} lets apps be open to the {proxy.spec.widest} at most"
            hint = f"write access: {proxy.spec.widest}, or widen it there"
            yield Issue(("spec", "apps", name, "access"), message, hint, "BAI-V050")
        elif proxy is not None and rules.port is not None:
            yield from _number_rules(proxy, name, kinds[name], rules.port)


def _number_rules(proxy: AppProxy, name: str, kind: PortKind, number: int | str) -> Iterator[Issue]:
    at: Loc = ("spec", "apps", name, "port")
    span = proxy.spec.ports.ranges.get(kind) if proxy.spec.ports is not None else None
    if span is None:
        hint = f"leave port out, or add ports: {{host: gpu.example, {kind}: 30000-30099}} there"
        yield Issue(at, f"{proxy.identity} has no ports for {kind}", hint, "BAI-V050")
    elif isinstance(number, int) and not span[0] <= number <= span[1]:
        message = f"{number} is none of the ports for {kind}, {span_text(span)}, of {proxy.identity}"
        yield Issue(at, message, "name one of these, or write port: auto", "BAI-V050")


def named_port_rules(repository: Repository, session: Session) -> Iterator[Issue]:
    """That no other document of its cluster, and no other app of its own, names the same port. `session`: or
    what the replicas of a service are."""
    service = identity_of("Service", session.name, session.project)
    own = service if repository.patterns.get(service) is session else session.identity
    for name, rules in session.spec.apps.items():
        if not isinstance(rules.port, int):
            continue
        them = repository.apps_by_port.get((repository.cluster_of(session), rules.port), ())
        others = [each for each in them if each != (own, name)]
        if others:
            identity, other = others[0]
            of = "this document" if identity == own else identity
            message = f"port {rules.port} is named by {other} of {of} as well"
            hint = "name another one, or write port: auto"
            yield Issue(("spec", "apps", name, "port"), message, hint, "BAI-V050")
