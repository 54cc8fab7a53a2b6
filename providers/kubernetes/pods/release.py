"""Devices that are about to be free: whoever had them has ended, and the cluster has yet to say so.

The API server gives devices back in steps: a pod ends, a controller takes its claim's devices back, a claim
that is deleted goes, and watches tell of each of these a moment later.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from providers.base import KernelSpec
from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.objects.claim import claim_path
from providers.kubernetes.objects.names import PodRef
from providers.kubernetes.observe.ledger import DeviceKey, HeldClaim, parse_claim
from providers.kubernetes.pods import end
from providers.kubernetes.pods.find import get_or_none
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderUnavailable


def wait_until_released(
    client: ApiClient, spec: KernelSpec, held: HeldClaim, devices: Collection[DeviceKey], device_id: str
) -> None:
    """Until a claim of others has none of these devices, where that is about to be so. Raises KernelRefused
    where nothing says that they will be given back, ProviderUnavailable where that takes too long."""
    ref = PodRef(held.namespace, held.name)
    name = f"claim {ref.namespace}/{ref.name}"
    deadline = time.monotonic() + end.MARGIN
    while (claim := get_or_none(client, claim_path(ref))) is not None and _has(claim, devices):
        going = _why_it_goes(client, claim)
        if not going:
            why, hint = f"{device_id} is given to {name}", "the next plan counts it as used"
            raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint=hint)
        if time.monotonic() > deadline:
            why = f"{device_id} is still held by {name}, {going}: the cluster's controller has not freed it"
            raise ProviderUnavailable(provider=NAME, why=why)
        end.next_change_of_claim(client, ref, claim)


def _has(claim: Object, devices: Collection[DeviceKey]) -> bool:
    now = parse_claim(claim)
    return now is not None and not set(devices).isdisjoint(now.devices)


def _why_it_goes(client: ApiClient, claim: Object) -> str:
    """Empty where somebody may still use it: a pod that has not ended, or whoever has reserved it for no
    pod at all."""
    metadata = claim["metadata"]
    owners = [each for each in metadata.get("ownerReferences") or () if each.get("kind") == "Pod"]
    users = (claim.get("status") or {}).get("reservedFor") or ()
    if any(each.get("resource") != "pods" for each in users):
        return ""
    if not users and not owners:
        return "which is being deleted" if metadata.get("deletionTimestamp") else ""
    for each in users or owners:
        pod = get_or_none(client, PodRef(metadata["namespace"], each["name"]).path)
        if pod is not None and pod["metadata"]["uid"] == each["uid"] and not _ends(pod):
            return ""
    return "whose pod has ended"


def _ends(pod: Object) -> bool:
    return end.is_ended(pod) or bool(pod["metadata"].get("deletionTimestamp"))
