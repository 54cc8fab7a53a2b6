"""Pods as the sessions whose documents were just written: labels on each, then records in the store."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from bai.actor import current_actor
from planner.model.types import DeviceGrant, KernelPlacement
from providers.base import Labels
from providers.kubernetes.inventory.adopt import adopt_pod
from providers.kubernetes.objects.labels import owner_hash
from reconciler.values.encoding.placement_json import canonical_json
from schemas.problems.errors.provider import ProviderError
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from providers.kubernetes.api.client import ApiClient
    from providers.kubernetes.inventory.session import AdoptablePod, ImportContext
    from reconciler.values.plan import Action, Plan
    from reconciler.values.state import Desired
    from reconciler.workspace.workspace import Workspace

AT_ONCE = 16
_MAIN = "main1"


def identity_of_pod(pod: AdoptablePod) -> str:
    project, name = pod.identity
    return identity_of("Session", name, project)


def adopt_pods(
    client: ApiClient, pods: Sequence[AdoptablePod], context: ImportContext, desired: Desired
) -> dict[str, ProviderError]:
    """Write bai's labels on all; gives the identities of those where it failed, and why: where that is
    retryable, a pod may have them all the same."""
    owned = replace(context, owner=owner_hash(desired.repo, desired.cluster))

    def adopt(pod: AdoptablePod) -> ProviderError | None:
        try:
            adopt_pod(client, pod, _labels(pod, desired), owned)
        except ProviderError as error:
            return error
        return None

    with ThreadPoolExecutor(AT_ONCE, "bai-adopt") as pool:
        said = list(pool.map(adopt, pods))
    return {identity_of_pod(pod): why for pod, why in zip(pods, said, strict=True) if why}


def _labels(pod: AdoptablePod, desired: Desired) -> Labels:
    identity = identity_of_pod(pod)
    held = pod.held
    grants = tuple(DeviceGrant(name, slot) for name, slot in held.devices)
    part = KernelPlacement(_MAIN, pod.node, (), held.cpu_milli, (), held.memory, grants)
    return Labels(
        repo=desired.repo,
        cluster=desired.cluster,
        resource=identity,
        generation=1,
        digest=desired.digests[identity],
        kernel=_MAIN,
        node=pod.node,
        commit=desired.commit,
        document=canonical_json(desired.documents[identity]),
        placement=canonical_json(part),
    )


def record(workspace: Workspace) -> Plan | None:
    """Write down what the documents say and what runs; the plan, where it would do more than that, and then
    nothing is done. Raises LeaseHeld, StalePlan, StoreError."""
    plan = workspace.plan()
    if plan.violations or not all(map(_only_records, plan.changes)):
        return plan
    result = workspace.apply(plan, holder=current_actor())
    return None if result.ok else plan


def _only_records(action: Action) -> bool:
    """Whether nothing is started, ended or changed by it."""
    if ref_of(action.id).kind in ("Volume", "Kernel") or action.provision is not None or action.pulls:
        return False
    if ref_of(action.id).kind != "Session":
        return True
    before, after = action.session_before, action.session_after
    return before is not None and after is not None and not after.specs and before.kernels == after.kernels
