"""The fingerprint of what a plan was made from: an apply refuses when it has changed.

It covers what decisions rest on: what is recorded, which kernels exist, what others hold, and, where replicas
of a service go, whether the others answer. It leaves out what only moves forward by itself (a kernel starts,
ends, restarts): that makes no decision wrong, and the next plan sees it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from providers.base import Observed
from reconciler.values.encoding.placement_json import canonical_json, fingerprint
from reconciler.values.services.state import NO_STATE, state_to_json
from reconciler.values.session_phase import ENDED, LIVE
from reconciler.values.state import Actual, Existing
from schemas.values.once_per_value import once_per_value


def state_fingerprint(actual: Actual, relied: Collection[str] = ()) -> str:
    """64 hex digits; equal for equal states, however they were reached. `relied`: the replicas whose
    readiness counts, as ready or not and dead or not."""
    lines = (_resource_line(each) for _, each in sorted(actual.existing.items()))
    existing = hashlib.sha256(b"".join(lines))
    whole: dict[str, object] = {
        "repo": actual.repo,
        "cluster": actual.cluster,
        "existing": existing.hexdigest(),
        "holds": sorted((hold.kernel, hold.placement.node) for hold in actual.holds if not hold.passing),
        "complete": actual.complete,
    }
    if provisioned := {node: one for node, one in sorted(actual.provision_records.items()) if one.state}:
        whole["nodes"] = [(node, one.state, one.fingerprint) for node, one in provisioned.items()]
    if actual.rollout_orders:
        orders = sorted(actual.rollout_orders.values(), key=lambda order: order.service)
        whole["orders"] = [(order.service, order.generation, order.against) for order in orders]
    answers = [(name, actual.readiness[name]) for name in sorted(relied) if name in actual.readiness]
    if answers:
        whole["readiness"] = [(name, each.ready, bool(each.dead)) for name, each in answers]
    return fingerprint(whole)


@once_per_value
def _resource_line(each: Existing) -> bytes:
    record = each.recorded
    part = {
        "id": each.id,
        "generation": record.generation,
        "digest": record.digest,
        "pending": record.phase == "PENDING",
        "terminating": record.phase == "TERMINATING",
        "recorded": not each.adopted,
        "placement": record.placement,
        "kernels": record.kernels,
        "protected": each.protected,
        "skips": record.skips,
        "seen": [_kernel_part(kernel) for kernel in each.kernels + each.strays],
        "missing": [] if each.phase in ENDED else sorted(set(each.missing) - _live_kernels(each)),
    }
    if record.service != NO_STATE:
        part["service"] = state_to_json(record.service)
    if record.app_ports:
        part["app_ports"] = record.app_ports
    return f"{canonical_json(part)}\n".encode()


def _live_kernels(each: Existing) -> set[str]:
    return {kernel.id for kernel in each.kernels if kernel.state in LIVE}


def _kernel_part(kernel: Observed) -> tuple[str, str]:
    """Not its limits: they cannot be read from a kernel that has just ended by itself."""
    return kernel.id, kernel.labels.digest
