"""Records made anew from what the labels of running kernels say: for a kernel whose record is gone, and for
a lost store."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from planner.model.types import KernelPlacement, Placement
from reconciler.values.encoding.placement_json import canonical_json, kernel_placement
from reconciler.values.records import Recorded
from reconciler.values.session_phase import derive_phase, ending_kernel
from schemas.problems.errors.plan import PlanError
from schemas.values.naturals import parse_natural

if TYPE_CHECKING:
    from providers.base import Labels, Observed


def record_from_labels(kernels: Sequence[Observed]) -> Recorded:
    """The record of one session from its kernels' labels: the newest generation counts, `main1` stands
    first."""
    generation = max(kernel.labels.generation for kernel in kernels)
    current = sorted((k for k in kernels if k.labels.generation == generation), key=_kernel_order)
    labels = current[0].labels
    document = document_of(labels)
    parts = [part for part in (placement_of(kernel.labels) for kernel in current) if part is not None]
    record = Recorded(
        resource=labels.resource,
        cluster=labels.cluster,
        generation=generation,
        digest=labels.digest,
        document=document,
        phase="CREATING",
        placement=Placement(labels.resource, _group_name(document), tuple(parts)) if parts else None,
        kernels=tuple(kernel.id for kernel in current),
        protected=any(kernel.labels.protected for kernel in kernels),
        commit=labels.commit,
        enqueued_at=_earliest(kernel.created.timestamp() for kernel in current if kernel.created),
        started_at=_earliest(kernel.started.timestamp() for kernel in current if kernel.started),
    )
    return _with_observed_end(record, current)


def _with_observed_end(record: Recorded, kernels: Sequence[Observed]) -> Recorded:
    found = derive_phase(record, kernels, complete=True)
    finished = [kernel.finished.timestamp() for kernel in kernels if kernel.finished]
    ended = found.phase in ("TERMINATED", "ERROR")
    first = ending_kernel(record, kernels)
    if ended and first is not None and first.reason == "stopped":
        # Only an apply stops what has not ended: it was replacing or deleting it, and died.
        return dataclasses.replace(record, phase="TERMINATING")
    return dataclasses.replace(
        record,
        phase=found.phase,
        result=found.result,
        exit_codes=dict(found.exit_codes),
        reason=found.reason,
        finished_at=max(finished) if ended and finished else None,
    )


def document_of(labels: Labels) -> Mapping[str, object]:
    """The session document on a kernel; empty when it cannot be read."""
    try:
        value = _parse_json(labels.document or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def placement_of(labels: Labels) -> KernelPlacement | None:
    """Where a kernel says it sits, on the node that it is on; None when its label cannot be read."""
    try:
        return dataclasses.replace(kernel_placement(_parse_json(labels.placement)), node=labels.node)
    except (ValueError, RecursionError, PlanError):
        return None


def _parse_json(text: str) -> object:
    """Raises ValueError also for half characters, which can be written nowhere; RecursionError."""
    value = json.loads(text)
    canonical_json(value).encode()
    return value


def _kernel_order(kernel: Observed) -> tuple[bool, str, int, str]:
    name = kernel.labels.kernel
    role = name.rstrip("0123456789")
    number = name[len(role) :]
    return role != "main", role, parse_natural(number) or 0, kernel.id


def _group_name(document: Mapping[str, object]) -> str:
    spec = document.get("spec")
    return str(spec.get("resourceGroup") or "") if isinstance(spec, Mapping) else ""


def _earliest(times: Iterable[float]) -> float | None:
    return min(times, default=None)
