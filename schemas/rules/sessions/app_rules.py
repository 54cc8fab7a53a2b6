"""What apps and the URLs they are opened at must fulfil."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.images.session_images import resolve_session_images
from schemas.kinds.app_proxy import AppProxy
from schemas.kinds.parts.apps import ACCESS_LEVELS, APP_PROTOCOLS
from schemas.kinds.session import Session
from schemas.problems.issues import Issue, Loc
from schemas.problems.text import did_you_mean, format_value
from schemas.repository.repository import Repository
from schemas.repository.storage_nodes import is_this_machine
from schemas.values.resource_ref import identity_of


def app_proxy_rules(repository: Repository, proxy: AppProxy) -> Iterator[Issue]:
    """A cluster's apps have one URL each, and no other cluster's have the same; the later is told. Where they
    come in by a node, it is another machine of the cluster, and means the same URL."""
    yield from _node_rules(repository, proxy)
    for other in repository.of(AppProxy):
        if other.name == proxy.name:
            return
        if repository.cluster_of(other) == repository.cluster_of(proxy):
            message = f"{other.identity} says already where apps of this cluster are"
            yield Issue(("spec", "cluster"), message, "leave one of the two out", "BAI-V043")
            return
        if _overlap(other.spec.domain, proxy.spec.domain):
            message = f"names below {other.spec.domain} are of {other.identity} already"
            hint = "give each cluster's apps a domain of their own, none within another"
            yield Issue(("spec", "url"), message, hint, "BAI-V050")
            return


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
    """That what has rules is an app, and that no more people may open it than the cluster allows."""
    if not session.spec.apps:
        return
    ports = resolve_session_images(session.spec, repository.images).ports
    apps = {port.name for port in ports if port.protocol in APP_PROTOCOLS}
    for name, rules in session.spec.apps.items():
        if name not in apps:
            other = any(port.name == name for port in ports)
            message = f"port {format_value(name)} speaks neither http nor https" if other else (
                f"there is no port {format_value(name)}"
            )  # fmt: skip
            hint = did_you_mean(name, apps) or "name one of its ports with protocol http or https"
            yield Issue(("spec", "apps", name), message, hint, "BAI-V040", key=True)
        elif proxy is not None and ACCESS_LEVELS.index(rules.access) > ACCESS_LEVELS.index(proxy.spec.widest):
            message = f"{proxy.identity} lets apps be open to the {proxy.spec.widest} at most"
            hint = f"write access: {proxy.spec.widest}, or widen it there"
            yield Issue(("spec", "apps", name, "access"), message, hint, "BAI-V050")
