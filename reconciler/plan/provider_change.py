"""Containers stay with whoever made them: a cluster is not given to another provider while any of them run.
Pure.

The new one would see nothing of them, and every session would be started a second time, on GPUs that are in
use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.values.session_phase import ENDED
from reconciler.values.state import Actual, Desired
from schemas.problems.errors.plan import PlanError
from schemas.values.resource_ref import identity_of, ref_of

_WHERE = ("provider", "stateRoot")
"""What says where containers are looked for."""
_SHOWN = 3


def refuse_provider_change(desired: Desired, actual: Actual) -> None:
    """Raises PlanError where the cluster's document names another provider, or another place of it, than the
    one that sessions run with."""
    identity = identity_of("Cluster", desired.cluster)
    known = actual.existing.get(identity)
    if known is None or identity not in desired.documents:
        return
    before, now = _cluster_spec(known.recorded.document), _cluster_spec(desired.documents[identity])
    other = next((name for name in _WHERE if before.get(name) != now.get(name)), "")
    left = sorted(_sessions_with_kernels(actual)) if other and before else []
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        was, wanted = (spec.get(other) or "its default" for spec in (before, now))
        why = (
            f"{identity}: {other} is to become {wanted}, but {', '.join(left[:_SHOWN])}{more} run with {was}"
        )
        raise PlanError(why=why, hint="with it as it was, first apply without these sessions")


def _sessions_with_kernels(actual: Actual) -> Iterator[str]:
    for identity, each in actual.existing.items():
        record = each.recorded
        if ref_of(identity).kind == "Session" and record.kernels and record.phase not in ENDED:
            yield identity


def _cluster_spec(document: Mapping[str, object]) -> Mapping[str, object]:
    spec = document.get("spec")
    return spec if isinstance(spec, Mapping) else {}
