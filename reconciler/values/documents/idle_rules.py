"""After how much idle time a session is stopped, and whose use is therefore measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.model.slots import is_device
from reconciler.values.documents.service_replicas import replica_of
from reconciler.values.documents.session_subjects import session_domain, session_user
from schemas.values.once_per_value import once_per_value

if TYPE_CHECKING:
    from reconciler.values.state import Actual, Desired
    from schemas.kinds.quota import Quota
    from schemas.kinds.session import IdleMetric, Session

SAMPLE_GAP = 300.0
"""Seconds between two samples of a GPU that may always pass."""
_UNDER_QUOTAS = ("interactive", "batch")


@dataclass(frozen=True, slots=True)
class IdleRule:
    """After `after` seconds below the threshold a session is stopped; `source` names the quota that says so,
    empty for the session itself."""

    after: float
    metric: IdleMetric
    below: float
    grace: float
    source: str = ""


def idle_rules(session: Session, desired: Desired) -> tuple[IdleRule, ...]:
    """What the documents say about the session's idle time; empty when nothing does."""
    own = session.spec.idle
    if own is None and not desired.idle_quotas:
        return ()
    found = []
    if own is not None:
        found.append(IdleRule(float(own.after), own.metric, float(own.below), float(own.grace)))
    if session.spec.type in _UNDER_QUOTAS:
        metric: IdleMetric = "gpu-utilization" if _has_devices(session) else "cpu-utilization"
        for quota in _idle_quotas(session, desired):
            after = float(quota.spec.idle_timeout or 0)
            found.append(IdleRule(after, metric, 5.0, SAMPLE_GAP, quota.name))
    return tuple(found)


def watched_kernels(desired: Desired, actual: Actual) -> frozenset[str]:
    """The kernels whose use is to be measured: those of sessions that some rule is about, and of services
    that are scaled by it."""
    names = (*_sessions_with_rules(desired), *_replicas_scaled_by_use(desired, actual))
    watched = map(actual.existing.get, names)
    return frozenset(
        kernel.id
        for existing in watched
        if existing is not None
        for kernel in existing.kernels
        if kernel.state == "running"
    )


@once_per_value
def _sessions_with_rules(desired: Desired) -> tuple[str, ...]:
    return tuple(identity for identity, session in desired.sessions().items() if idle_rules(session, desired))


def _replicas_scaled_by_use(desired: Desired, actual: Actual) -> Iterator[str]:
    specs = {name: each.service.spec.autoscaling for name, each in desired.services.items()}
    scaled = {name for name, rules in specs.items() if rules is not None and rules.gpu_utilization}
    for identity, existing in actual.existing.items() if scaled else ():
        ref = replica_of(existing)
        if ref is not None and ref.service in scaled:
            yield identity


def _has_devices(session: Session) -> bool:
    slots = (slot for each in session.spec.containers for slot, n in each.resources.slots.items() if n)
    return any(is_device(slot) for slot in slots)


def _idle_quotas(session: Session, desired: Desired) -> Iterator[Quota]:
    """Quotas with an idle timeout that hold for the session."""
    subjects = {
        ("domain", session_domain(session, desired.repository)),
        ("project", session.metadata.project),
        ("user", session_user(session, desired.repository)),
    }
    for quota in desired.idle_quotas:
        group = quota.spec.resource_group
        if quota.spec.subject.kind_and_name in subjects and group in (
            None,
            session.spec.resource_group or "",
        ):
            yield quota
