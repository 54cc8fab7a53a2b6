"""ResourceQuotas of the namespaces where bai makes pods: a pod or a claim beyond one is refused when it is
made (https://kubernetes.io/docs/concepts/policy/resource-quotas/).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from providers.foreign_use import CLAIMS, PODS, OutsideQuota
from providers.kubernetes.api.reflector import Key
from providers.kubernetes.objects.amounts import CPU, MEMORY, PAGES
from providers.kubernetes.objects.device import Device
from providers.kubernetes.objects.quantity import parse_quantity
from providers.kubernetes.observe.hardware import VENDORS
from providers.kubernetes.observe.ledger import AskedClaim, DeviceKey, HeldClaim
from providers.kubernetes.observe.pods import OwnPod
from schemas.kinds.parts.kubernetes import Kubernetes

DEVICE_QUOTAS = {
    "requests.nvidia.com/gpu": "cuda.device",
    "requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com": "cuda.device",
    "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "cuda.device",
    "requests.amd.com/gpu": "rocm.device",
    "requests.deviceclass.resource.kubernetes.io/gpu.amd.com": "rocm.device",
    "gpu.amd.com.deviceclass.resource.k8s.io/devices": "rocm.device",
}
"""What limits whole GPUs, of claims as of extended resources, and the slot that they are."""
_LIMITED = {
    "requests.cpu": CPU, "cpu": CPU, "limits.cpu": CPU,
    "requests.memory": MEMORY, "memory": MEMORY, "limits.memory": MEMORY,
    **{name: slot for slot in PAGES for name in (slot, f"requests.{slot}")},
    "pods": PODS, "count/pods": PODS,
    "count/resourceclaims.resource.k8s.io": CLAIMS,
    **DEVICE_QUOTAS,
}  # fmt: skip
_NAMED = 5
_ALL_OURS = ["NotBestEffort"]
"""Scopes of all pods of bai's: they have requests."""


@dataclass(frozen=True, slots=True)
class NamespaceQuota:
    """`hard` and `used` by slot, in its smallest unit; where several names limit one slot, the one that has
    the least left. `unplanned`: what else it limits; `scoped`: it counts some pods only."""

    namespace: str
    name: str
    hard: Mapping[str, int]
    used: Mapping[str, int]
    unplanned: tuple[str, ...] = ()
    scoped: bool = False


def parse_quota(found: Mapping[str, Any]) -> NamespaceQuota:
    """Pure."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    limits, uses = status.get("hard") or spec.get("hard") or {}, status.get("used") or {}
    hard: dict[str, int] = {}
    used: dict[str, int] = {}
    unplanned = []
    for name in sorted(limits):
        slot = _LIMITED.get(name)
        if slot is None:
            unplanned.append(name)
            continue
        most, has = (parse_quantity(str(each.get(name) or "0"), milli=slot == CPU) for each in (limits, uses))
        if slot not in hard or most - has < hard[slot] - used[slot]:
            hard[slot], used[slot] = most, has
    scopes = spec.get("scopes") or []
    return NamespaceQuota(
        str(metadata.get("namespace")), str(metadata["name"]), hard, used, tuple(unplanned),
        scoped=bool(spec.get("scopeSelector")) or scopes not in ([], _ALL_OURS),
    )  # fmt: skip


def outside_quotas(
    quotas: Iterable[NamespaceQuota],
    pods: Mapping[Key, OwnPod],
    claims: Iterable[HeldClaim],
    devices: Mapping[DeviceKey, Device],
    options: Kubernetes,
    asked: Iterable[AskedClaim] = (),
) -> tuple[OutsideQuota, ...]:
    """What each allows bai's pods, and what others have of it. What bai asks for nodes with is nobody's use:
    it goes before a pod is made. Pure."""
    planned = [each for each in quotas if not each.scoped and each.hard]
    if not planned:
        return ()
    own = _own_use(pods, claims, devices)
    for claim in asked:
        own[claim.namespace].update({CLAIMS: 1, **dict(claim.devices)})
    found = []
    for quota in sorted(planned, key=lambda each: (each.namespace, each.name)):
        ours = own[quota.namespace]
        # A pod that has just gone may be in `used` for some seconds: then it is others' for so long.
        others = {slot: max(0, quota.used[slot] - ours[slot]) for slot in quota.hard}
        name = f"ResourceQuota/{quota.namespace}/{quota.name}"
        found.append(OutsideQuota(name, options.project_of(quota.namespace), quota.hard, others))
    return tuple(found)


def _own_use(
    pods: Mapping[Key, OwnPod],
    claims: Iterable[HeldClaim],
    devices: Mapping[DeviceKey, Device],
) -> defaultdict[str, Counter[str]]:
    """Of each namespace, what bai's pods have there, by slot."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    owners = set()
    for (namespace, _), pod in pods.items():
        owners.add((namespace, pod.uid))
        if pod.charged is not None:
            found[namespace].update({**pod.charged, PODS: 1})
    for claim in claims:
        # One that several share is nobody's part of a plan: it is what others have.
        if claim.rule is None and (claim.namespace, claim.owner) in owners:
            use = found[claim.namespace]
            use[CLAIMS] += 1
            for key in claim.devices:
                if key[0] in VENDORS and _is_whole(key, devices.get(key)):
                    use[f"{VENDORS[key[0]][1]}.device"] += 1
    return found


def _is_whole(key: DeviceKey, device: Device | None) -> bool:
    """What nobody publishes now, as while its kubelet begins anew, is known by its name, which is `gpu-0` or
    `gpu-0-mig-1g10gb-0-1` of NVIDIA's driver."""
    return "mig" not in key[2] if device is None else device.attributes.get("type", "gpu") == "gpu"


def unplanned_parts(quotas: Iterable[NamespaceQuota]) -> list[str]:
    """What of quotas is not part of plans, in words. Pure."""
    said = []
    for quota in sorted(quotas, key=lambda each: (each.namespace, each.name)):
        where = f"ResourceQuota {quota.namespace}/{quota.name}"
        if quota.scoped:
            said.append(f"{where} counts some pods only, by scopes, and is no part of plans")
        elif quota.unplanned:
            said.append(f"{where} limits also {', '.join(quota.unplanned)}, which plans do not count")
    more = [f"{len(said) - _NAMED} more ResourceQuotas are only part of plans, or none"]
    return said if len(said) <= _NAMED else [*said[:_NAMED], *more]
