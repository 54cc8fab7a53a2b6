"""What a service's replicas are: its template as a session, and sessions made of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from reconciler.values.services.probes import with_probes
from schemas.values.canonical import canonical_document, full_digest
from schemas.values.envelope import GENERATION_LABEL, PROTECT, SERVICE_LABEL
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from schemas.kinds.service import Service
    from schemas.kinds.session import Session

DRAIN_ANNOTATION = "bai/drain"
"""Annotation: seconds for which a replica may go on with the requests that it has, before it is stopped."""
SPREAD_ANNOTATION = "bai/spread"
"""Annotation: how a replica wants to lie beside the others; `spread` where it is missing."""
_GENERATION_DIGITS = 8
_LONGEST_DRAIN = 3600.0


@dataclass(frozen=True, slots=True)
class ServicePattern:
    """`session`: of the service's own name, with its group, its cluster's defaults and its images filled in,
    and with its probes; no session of that name ever runs. `generation`: by what it says, 8 hex digits."""

    service: Service
    session: Session
    generation: str


def pattern_of(service: Service, session: Session) -> ServicePattern:
    """`session`: the template as a session, complete."""
    asked = with_probes(session, service.spec)
    return ServicePattern(service, asked, generation_of(canonical_document(asked)))


def generation_of(document: Mapping[str, Any]) -> str:
    """The name of the generation whose pattern has this canonical document."""
    return full_digest(document)[:_GENERATION_DIGITS]


def drain_of(document: Mapping[str, object]) -> float:
    """Seconds that a replica with this document is given; 0 where it says nothing that counts."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    said = annotations.get(DRAIN_ANNOTATION) if isinstance(annotations, Mapping) else None
    return min(float(said), _LONGEST_DRAIN) if isinstance(said, str) and said.isdecimal() else 0.0


def replica_name(service: str, generation: str, number: int) -> str:
    """`service`: its name."""
    return f"{service}-{generation}-{number}"


def replica_notes(service: Service) -> dict[str, str]:
    """What a service says of its replicas beside their pattern: annotations, which change no generation."""
    spread = service.spec.placement
    said: dict[str, str] = {SPREAD_ANNOTATION: spread} if spread != "spread" else {}
    return {**said, DRAIN_ANNOTATION: str(service.spec.drain)} if service.spec.template.ports else said


def replica_session(
    pattern: Session, generation: str, number: int, notes: Mapping[str, str] = MappingProxyType({})
) -> Session:
    """The replica with this number (1, 2, ...) of a generation, with `notes` as annotations. What protects a
    service does not keep its replicas from being replaced."""
    name = replica_name(pattern.name, generation, number)
    labels = {**pattern.metadata.labels, SERVICE_LABEL: pattern.name, GENERATION_LABEL: generation}
    own = {key: value for key, value in pattern.metadata.annotations.items() if key != PROTECT}
    annotations = {**own, **notes}
    metadata = pattern.metadata.model_copy(
        update={"name": name, "labels": labels, "annotations": annotations}
    )
    return pattern.model_copy(update={"metadata": metadata})


def service_of(session: Session) -> str:
    """The identity of the service whose replica a session is; empty for any other."""
    name = session.metadata.labels.get(SERVICE_LABEL)
    return identity_of("Service", name, session.metadata.project) if name is not None else ""


@dataclass(frozen=True, slots=True)
class ReplicaRef:
    """Whose replica a session is."""

    service: str
    """Identity."""
    generation: str
    number: int


def replica_ref(identity: str, document: Mapping[str, object]) -> ReplicaRef | None:
    """Of a session by its recorded document, whose labels no document of people may have; None for one that
    is no replica."""
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    labels, project, name = metadata.get("labels"), metadata.get("project"), str(metadata.get("name"))
    if not isinstance(labels, Mapping) or SERVICE_LABEL not in labels or not isinstance(project, str):
        return None
    service, generation = str(labels[SERVICE_LABEL]), str(labels.get(GENERATION_LABEL, ""))
    number = name.removeprefix(f"{service}-{generation}-")
    if not number.isdecimal() or identity != identity_of("Session", name, project):
        return None
    return ReplicaRef(identity_of("Service", service, project), generation, int(number))
