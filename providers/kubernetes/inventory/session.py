"""A pod that somebody else has made, as a Session. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from providers.kubernetes.inventory.documents import Document, document, safe_name
from providers.kubernetes.inventory.environment import Environment, read_environment
from providers.kubernetes.inventory.held import ClusterDevices, Held, read_held
from providers.kubernetes.inventory.obstacles import obstacles, shared_memory
from providers.kubernetes.objects.names import PREFIX
from providers.kubernetes.objects.quantity import parse_quantity
from schemas.kinds.session import Session
from schemas.problems.model_errors import issues_of
from schemas.problems.positions import path_text
from schemas.values.quantities import format_duration, format_memory

_NOT_KEPT = ("app.kubernetes.io/managed-by",)
_RESTART = {"Always": "always", "OnFailure": "on-failure"}
_GRACE = 30


@dataclass(frozen=True, slots=True)
class AdoptablePod:
    """A pod, and what it is as a session. `notes`: what would be different if it were started anew."""

    namespace: str
    name: str
    uid: str
    node: str
    document: Document
    held: Held
    notes: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, str]:
        """Project and name of the session."""
        metadata = self.document["metadata"]
        return str(metadata["project"]), str(metadata["name"])


@dataclass(frozen=True, slots=True)
class ImportContext:
    """What all pods of a cluster have in common. `groups`: of nodes that were imported; `store`: a
    SecretStore; `owner`: as `labels.owner_hash` has it, of who imports; empty: nobody has yet."""

    groups: Mapping[str, str]
    known: ClusterDevices
    store: str = ""
    owner: str = ""


def read_session(
    pod: Mapping[str, Any], project: str, context: ImportContext
) -> tuple[AdoptablePod | None, tuple[str, ...]]:
    """The pod as a session of the project, or None and why it cannot be one."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    found = list(obstacles(pod, context.owner))
    containers = spec.get("containers") or ()
    container = containers[0] if containers else {}
    environment = read_environment(container, context.store)
    held = read_held(pod, container, context.known)
    node = str(spec.get("nodeName") or "")
    found += [*environment.obstacles, *held.obstacles]
    if node not in context.groups:
        found.append(f"its node {node or '(none)'} is not imported")
    if found:
        return None, tuple(found)
    said = _session_spec(spec, container, environment, held, context.groups[node])
    about: dict[str, Any] = {"name": safe_name(str(metadata["name"])), "project": project}
    if kept := _labels(metadata):
        about["labels"] = kept
    made = document("Session", about, said)
    if wrong := _invalid(made):
        return None, (wrong,)
    notes = (*held.notes, *_notes(spec, container))
    return AdoptablePod(
        str(metadata["namespace"]), str(metadata["name"]), str(metadata["uid"]), node, made, held, notes
    ), ()


def _labels(metadata: Mapping[str, Any]) -> dict[str, str]:
    given = metadata.get("labels") or {}
    return {
        str(key): str(value)
        for key, value in sorted(given.items())
        if key not in _NOT_KEPT and not str(key).startswith((PREFIX, "bai/"))
    }


def _invalid(made: Document) -> str:
    """What a document says that none may; empty: nothing."""
    try:
        Session.model_validate(made)
    except ValidationError as error:
        first = issues_of(error, Session)[0]
        return f"{path_text(first.at)}: {first.message}"
    return ""


def _session_spec(
    spec: Mapping[str, Any], container: Mapping[str, Any], environment: Environment, held: Held, group: str
) -> dict[str, Any]:
    policy = _RESTART.get(str(spec.get("restartPolicy") or "Always"))
    tty = bool(container.get("tty") and container.get("stdin"))
    grace, limit = spec.get("terminationGracePeriodSeconds"), spec.get("activeDeadlineSeconds")
    resources = dict(held.resources)
    shm = sum(parse_quantity(shared_memory(volume)) for volume in spec.get("volumes") or ())
    if shm:
        resources["shm"] = format_memory(shm)
    wanted = {
        "type": "interactive" if tty else "inference" if policy == "always" else "batch",
        "resourceGroup": group,
        "image": str(container.get("image") or ""),
        "resources": resources,
        "command": list(environment.command),
        "tty": tty,
        "workdir": container.get("workingDir"),
        "env": dict(environment.plain),
        "secrets": [dict(each) for each in environment.secrets],
        "ports": list(_ports(container)),
        "timeout": format_duration(int(limit)) if limit else None,
        "restart": {"policy": policy} if policy else None,
        "stop": {"grace": format_duration(int(grace if grace is not None else _GRACE))},
        "container": _container_rules(spec, container),
    }
    return {name: value for name, value in wanted.items() if value}


def _container_rules(spec: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
    own = container.get("securityContext") or {}
    found: dict[str, Any] = {}
    if user := _user(spec, container):
        found["user"] = user
    if own.get("readOnlyRootFilesystem"):
        found["readOnlyRoot"] = True
    return found


def _user(spec: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    """`uid:gid`, or less; empty: nobody says, or root, which a group must allow."""
    security = {**(spec.get("securityContext") or {}), **(container.get("securityContext") or {})}
    user, group = security.get("runAsUser"), security.get("runAsGroup")
    return (f"{user}:{group}" if group else str(user)) if user else ""


def _ports(container: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    names: set[str] = set()
    for port in container.get("ports") or ():
        number, protocol = int(port.get("containerPort") or 0), str(port.get("protocol") or "TCP").lower()
        if protocol in ("tcp", "udp"):
            name = str(port.get("name") or f"{protocol}-{number}")
            if name not in names:
                yield {"name": name, "port": number, "protocol": protocol}
            names.add(name)


def _notes(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    if container.get("command"):
        yield "its command becomes arguments of the image's entrypoint"
    if not _user(spec, container):
        yield "it runs as its project's user, not as its image's"
    if any("projected" in volume for volume in spec.get("volumes") or ()):
        yield "it has no service account's token"
    if any(container.get(each) for each in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")):
        yield "it has no probes and hooks"
    if spec.get("hostname") or spec.get("subdomain"):
        yield "it has another host name"
    if spec.get("nodeSelector") or spec.get("affinity"):
        yield "any node of its group will do"
