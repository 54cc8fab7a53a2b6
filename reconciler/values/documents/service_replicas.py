"""Which of what exists are replicas, and whose readiness a plan rests on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from reconciler.values.services.pattern import ReplicaRef, replica_ref
from schemas.values.once_per_value import once_per_value

if TYPE_CHECKING:
    from reconciler.values.state import Existing


@once_per_value
def replica_of(existing: Existing) -> ReplicaRef | None:
    """Whose replica this is; None where it is none."""
    return replica_ref(existing.id, existing.recorded.document)


def relied_replicas(existing: Mapping[str, Existing], changed: Iterable[str]) -> tuple[str, ...]:
    """Of the services that lose a replica, or have one changed, by a plan that changes these resources: all
    replicas, in order. A plan that only makes new ones is right however the others answer."""
    refs = (replica_of(existing[each]) for each in changed if each in existing)
    services = {ref.service for ref in refs if ref is not None}
    if not services:
        return ()
    found = ((identity, replica_of(each)) for identity, each in existing.items())
    return tuple(sorted(identity for identity, ref in found if ref is not None and ref.service in services))
