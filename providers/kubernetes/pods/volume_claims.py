"""Claims that wait for their first pod: bai is its pods' scheduler, so it is bai who says where that is."""

from __future__ import annotations

from providers.base import KernelSpec
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.objects.volume_claim import SELECTED_NODE, claim_path
from providers.kubernetes.pods.find import get_or_none
from schemas.problems.errors.provider import ProviderUnavailable


def tell_provisioners(client: ApiClient, namespace: str, spec: KernelSpec) -> None:
    """Each claim of the kernel that has no volume yet learns its node. Raises ProviderUnavailable where a
    claim is gone, ApiRefusal, OSError."""
    for name in dict.fromkeys(mount.claim for mount in spec.mounts if mount.claim):
        path = claim_path(namespace, name)
        found = get_or_none(client, path)
        if found is None:
            why = f"there is no claim {namespace}/{name}: the next plan makes it"
            raise ProviderUnavailable(provider=NAME, why=why)
        bound = found["spec"].get("volumeName")
        said = (found["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if not bound and said != spec.labels.node:
            client.patch(path, {"metadata": {"annotations": {SELECTED_NODE: spec.labels.node}}})
