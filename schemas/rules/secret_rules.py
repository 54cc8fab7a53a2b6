"""What a SecretStore must fulfil alone, and where each kind of document names secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.kinds.cluster import Cluster, Ssh
from schemas.kinds.image import Registry
from schemas.kinds.node import Node, NodePool
from schemas.kinds.notification import Notification
from schemas.kinds.parts.docker import Docker
from schemas.kinds.secret_store import SecretStore
from schemas.kinds.session import Session
from schemas.problems.issues import Issue, Loc
from schemas.profile import NodeProfile
from schemas.profile.variables import SECRET
from schemas.values.envelope import Resource
from schemas.values.names import ENV_PATTERN

_VARIABLE = re.compile(ENV_PATTERN.removesuffix("$") + r"\Z")


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A place where a document names a secret. `project`: whose session it is; None for infrastructure."""

    at: Loc
    reference: str
    project: str | None = None


def store_rules(store: Any) -> Iterator[Issue]:
    """What is wrong with a store, wherever it is declared."""
    spec = store.spec
    if not spec.projects and not spec.infrastructure:
        hint = "give projects: [name], or infrastructure: true"
        yield Issue(("spec",), "nobody may use this store", hint, "BAI-V021")
    if spec.environment is not None:
        for index, entry in enumerate(spec.entries):
            if not _VARIABLE.match(entry):
                message = f"'{entry}' is not the name of a variable"
                hint = "write each variable's name out: patterns would open more than is meant"
                yield Issue(("spec", "entries", index), message, hint, "BAI-V033")


def secret_uses(resource: Resource) -> Iterator[SecretUse]:
    """Every secret that a document names."""
    uses = _USES.get(type(resource))
    return uses(resource) if uses else iter(())


def _secret_use(at: Loc, reference: str | None) -> Iterator[SecretUse]:
    if reference is not None:
        yield SecretUse(at, reference)


def _session(session: Any) -> Iterator[SecretUse]:
    for index, secret in enumerate(session.spec.secrets):
        yield SecretUse(("spec", "secrets", index, "from"), secret.source, session.project)


def _registry(registry: Any) -> Iterator[SecretUse]:
    spec = registry.spec
    yield from _secret_use(("spec", "caFrom"), spec.ca_from)
    if spec.credentials is not None:
        yield from _secret_use(("spec", "credentials", "usernameFrom"), spec.credentials.username_from)
        yield from _secret_use(("spec", "credentials", "passwordFrom"), spec.credentials.password_from)


def _notification(notification: Any) -> Iterator[SecretUse]:
    to = notification.spec.to
    at: Loc = ("spec", "to", to.kind)
    target = getattr(to, to.kind)
    for field in ("urlFrom", "usernameFrom", "passwordFrom", "signatureFrom", "caFrom"):
        yield from _secret_use((*at, field), getattr(target, _field_name(field), None))
    for name, reference in getattr(target, "headers_from", {}).items():
        yield from _secret_use((*at, "headersFrom", name), reference)


def _field_name(field: str) -> str:
    return field.removesuffix("From") + SECRET


def _profile(profile: Any) -> Iterator[SecretUse]:
    for role in profile.spec.roles:
        section = getattr(profile.spec, role)
        for name, field in type(section).model_fields.items():
            if name.endswith(SECRET):
                yield from _secret_use(
                    ("spec", _section_alias(role), str(field.alias)), getattr(section, name)
                )


def _section_alias(role: str) -> str:
    return str(NodeProfile.model_fields["spec"].annotation.model_fields[role].alias)  # type: ignore[union-attr]


def _machine(machine: Any) -> Iterator[SecretUse]:
    yield from _ssh(machine.spec.ssh)
    yield from _docker(machine.spec.docker)


def _ssh(ssh: Ssh) -> Iterator[SecretUse]:
    yield from _secret_use(("spec", "ssh", "keyFrom"), ssh.key_from)
    yield from _secret_use(("spec", "ssh", "knownHostsFrom"), ssh.known_hosts_from)


def _docker(docker: Docker) -> Iterator[SecretUse]:
    if docker.tls is not None:
        yield from _secret_use(("spec", "docker", "tls", "caFrom"), docker.tls.ca_from)
        yield from _secret_use(("spec", "docker", "tls", "certFrom"), docker.tls.cert_from)
        yield from _secret_use(("spec", "docker", "tls", "keyFrom"), docker.tls.key_from)


_USES: Mapping[type[Resource], Callable[[Any], Iterator[SecretUse]]] = {
    Session: _session,
    Registry: _registry,
    Notification: _notification,
    NodeProfile: _profile,
    Cluster: _machine,
    Node: _machine,
    NodePool: _machine,
}


def repository_store_rules(store: SecretStore, taken: Mapping[str, object]) -> Iterator[Issue]:
    """Why a store may not stand in the repository; `taken`: the owner's stores by name."""
    where = "the cluster's owner declares it in the file of --secret-stores, or /etc/bai/secret-stores.yaml"
    spec = store.spec
    if spec.sops is None:
        message = f"a store of kind {spec.backend} opens the machine that runs bai, which no document may"
        yield Issue(("spec", spec.backend), message, where, "BAI-V056", key=True)
    elif spec.sops.key_file is not None:
        message = "which key decrypts is not for documents to say"
        hint = "set SOPS_AGE_KEY_FILE where bai runs, or have the owner declare the store"
        yield Issue(("spec", "sops", "keyFile"), message, hint, "BAI-V056", key=True)
    if store.name in taken:
        message = f"the cluster's owner declares a store '{store.name}'"
        yield Issue(("metadata", "name"), message, "give it another name", "BAI-V056")
