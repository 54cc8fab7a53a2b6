"""Joining the claim of a GPU that several kernels share: the first makes it, and it goes with the last."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from providers.kubernetes.api.client import STRATEGIC, ApiClient, Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import CONFLICT, NOT_FOUND, ApiRefusal
from providers.kubernetes.objects.claim import FINALIZER, claim_path
from providers.kubernetes.objects.device import Device
from providers.kubernetes.objects.names import PodRef, namespaced
from providers.kubernetes.objects.pod import is_owned, owner_reference
from providers.kubernetes.objects.sharing import SharingRule, joined_status, rule_of_claim
from providers.kubernetes.pods.end import wait_for_claim
from providers.kubernetes.pods.find import get_or_none
from schemas.problems.errors.provider import ProviderUnavailable

_ATTEMPTS = 20
"""As many can begin at the same time on one GPU, each of whom changes the claim."""


def join_claim(
    client: ApiClient,
    ref: PodRef,
    pod: Object,
    device: Device,
    rule: SharingRule,
    body: Object,
    status: Object,
) -> Object:
    """The claim, once this pod has its part of it. `body`, `status`: of one that nobody has yet. Raises
    ProviderUnavailable, ApiRefusal, OSError."""
    name = f"claim {ref.namespace}/{ref.name}"
    claim: Object | None = None
    for _ in range(_ATTEMPTS):
        try:
            claim = claim or make_or_find(client, ref, body)
        except ApiRefusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            continue  # It was there, and has gone since.
        if _is_spent(claim):
            _discard(client, ref, claim)
            claim = None
            continue
        if rule_of_claim(claim) != rule:
            raise ProviderUnavailable(provider=NAME, why=f"{name} holds those who share it to something else")
        given = (claim.get("status") or {}).get("allocation")
        if given and _keys(given) != {device.key}:
            raise ProviderUnavailable(provider=NAME, why=f"{name} has other devices")
        if given and is_owned(claim, pod) and pod["metadata"]["uid"] in _reserved(claim):
            return claim
        with contextlib.suppress(_Changed):
            _add_user(client, ref, claim, pod, status)
        claim = get_or_none(client, claim_path(ref))
    raise ProviderUnavailable(provider=NAME, why=f"{name} changes all the time")


class _Changed(Exception):
    """Somebody was faster."""


def _add_user(client: ApiClient, ref: PodRef, claim: Object, pod: Object, status: Object) -> None:
    """One more of its pods. Raises _Changed, ApiRefusal, OSError."""
    try:
        # Its owner first: the cluster deletes what has none left.
        if not is_owned(claim, pod):
            owners = {"metadata": {"ownerReferences": [owner_reference(pod)]}}
            claim = client.patch(claim_path(ref), owners, kind=STRATEGIC)
            if _is_spent(claim):
                raise _Changed
        given = (claim.get("status") or {}).get("allocation")
        wanted = joined_status(claim, pod) if given else status
        client.replace(f"{claim_path(ref)}/status", {**claim, "status": wanted})
    except ApiRefusal as refusal:
        if refusal.status not in (CONFLICT, NOT_FOUND):
            raise
        raise _Changed from None


def _is_spent(claim: Object) -> bool:
    """Whether it goes, or the cluster's controller has taken its device back, and its finalizer with it: to
    such a one nobody gives a device again, for nothing would take it back."""
    about = claim["metadata"]
    return bool(about.get("deletionTimestamp")) or FINALIZER not in (about.get("finalizers") or ())


def _discard(client: ApiClient, ref: PodRef, claim: Object) -> None:
    """Take a spent claim away. Raises ProviderUnavailable, ApiRefusal, OSError."""
    uid, version = claim["metadata"]["uid"], claim["metadata"]["resourceVersion"]
    try:
        client.delete(claim_path(ref), {"preconditions": {"uid": uid, "resourceVersion": version}})
    except ApiRefusal as refusal:
        if refusal.status not in (CONFLICT, NOT_FOUND):
            raise
        return
    wait_for_claim(client, ref, lambda found: found is None or found["metadata"]["uid"] != uid)


def make_or_find(client: ApiClient, ref: PodRef, body: Object) -> Object:
    try:
        return client.create(namespaced("resourceclaims", ref.namespace), body)
    except ApiRefusal:
        # An attempt before, or one at the same time; a quota refuses it as well where it is there already.
        found = get_or_none(client, claim_path(ref))
        if found is None:
            raise
        return found


def _keys(allocation: Mapping[str, object]) -> set[tuple[object, object, object]]:
    devices = allocation.get("devices")
    results = devices.get("results") if isinstance(devices, dict) else ()
    return {(each.get("driver"), each.get("pool"), each.get("device")) for each in results or ()}


def _reserved(claim: Object) -> set[str]:
    return {str(each.get("uid")) for each in claim["status"].get("reservedFor") or ()}
