"""Whose use is measured so that reports can tell it, and when: as the cluster's document says. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.kinds.cluster import Cluster
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from reconciler.values.state import Actual, Desired


def accounted_kernels(desired: Desired, actual: Actual) -> frozenset[str]:
    """The running kernels of sessions, where all are measured; none where only those with idle rules are."""
    if _interval(desired) is None:
        return frozenset()
    return frozenset(
        kernel.id
        for identity, existing in actual.existing.items()
        if ref_of(identity).kind == "Session"
        for kernel in existing.kernels
        if kernel.state == "running"
    )


def due_kernels(desired: Desired, actual: Actual, now: float) -> frozenset[str]:
    """Those of them that nobody has measured for the interval."""
    interval = _interval(desired)
    if interval is None:
        return frozenset()
    return frozenset(
        kernel
        for kernel in accounted_kernels(desired, actual)
        if not (known := actual.samples.get(kernel)) or abs(now - known[-1].at) >= interval
    )


def _interval(desired: Desired) -> int | None:
    cluster = desired.resources.get(identity_of("Cluster", desired.cluster))
    return cluster.spec.accounting.sample_interval if isinstance(cluster, Cluster) else None
