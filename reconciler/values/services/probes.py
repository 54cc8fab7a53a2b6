"""The probes of a generation: notes on its pattern, which its replicas carry wherever they go. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemas.kinds.service import LivenessProbe, Probe, ServiceSpec
    from schemas.kinds.session import Session

READINESS_ANNOTATION = "bai/readiness"
LIVENESS_ANNOTATION = "bai/liveness"
"""Annotations: a replica's probes, as JSON; missing where its service's document names none."""


@dataclass(frozen=True, slots=True)
class Probes:
    readiness: Probe | None = None
    liveness: LivenessProbe | None = None


def with_probes(session: Session, spec: ServiceSpec) -> Session:
    """A service's pattern with its probes; of what its document says under these names nothing stays."""
    said = {READINESS_ANNOTATION: spec.readiness, LIVENESS_ANNOTATION: spec.liveness}
    probes = {name: _text(probe) for name, probe in said.items() if probe is not None}
    own = {name: text for name, text in session.metadata.annotations.items() if name not in said}
    if {**own, **probes} == session.metadata.annotations:
        return session
    metadata = session.metadata.model_copy(update={"annotations": {**own, **probes}})
    return session.model_copy(update={"metadata": metadata})


def probes_of(document: Mapping[str, object]) -> Probes:
    """Of a replica with this document; without those that cannot be read."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    said = annotations if isinstance(annotations, Mapping) else {}
    readiness, liveness = said.get(READINESS_ANNOTATION), said.get(LIVENESS_ANNOTATION)
    return _read(str(readiness or ""), str(liveness or ""))


def _text(probe: Probe) -> str:
    said = probe.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return json.dumps(said, sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=1024)
def _read(readiness: str, liveness: str) -> Probes:
    from pydantic import ValidationError

    from schemas.kinds.service import LivenessProbe, Probe

    found = Probes()
    with suppress(ValidationError):
        found = replace(found, readiness=Probe.model_validate_json(readiness) if readiness else None)
    with suppress(ValidationError):
        found = replace(found, liveness=LivenessProbe.model_validate_json(liveness) if liveness else None)
    return found
