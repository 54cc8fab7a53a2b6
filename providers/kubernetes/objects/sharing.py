"""A claim that several kernels use: its GPU is given once, to a namespace, and each has a part of it. Pure.

What holds them to their parts is the driver's: an MPS daemon for each claim, which sets one limit for all of
its clients; each client's own variables can only go below it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from providers.gpu.gpu_share import GpuShare
from providers.kubernetes.objects import labels
from providers.kubernetes.objects.claim import allocation_status, claim_manifest
from providers.kubernetes.objects.device import Device
from providers.kubernetes.objects.names import PodRef
from schemas.values.naturals import parse_natural

NVIDIA = "gpu.nvidia.com"
_NAME = re.compile(r"shared-[0-9a-f]{12}-[0-9a-f]{8}")
_RULE = re.compile(r"(none|mps)-([0-9]{1,4})")
_WHOLE = 1000
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class SharingRule:
    """What holds all who share a device: the same for the life of a claim."""

    means: str
    most: int = _WHOLE
    """Thousandths of the device that none of them has more of."""

    @property
    def label(self) -> str:
        return f"{self.means}-{self.most}"

    def __str__(self) -> str:
        if self.means == "none":
            return "without limits"
        return f"by {self.means}, with at most {self.most / _WHOLE:g} for each"


def rule_of(share: GpuShare | None) -> SharingRule:
    return SharingRule(share.means, share.most) if share is not None else SharingRule("none")


def rule_of_claim(claim: Mapping[str, Any]) -> SharingRule | None:
    """None for a claim that bai has not made to be shared."""
    said = _RULE.fullmatch(str((claim["metadata"].get("labels") or {}).get(labels.SHARING) or ""))
    return SharingRule(said[1], parse_natural(said[2]) or 0) if said else None


def shared_prefix(device: Device, rule: SharingRule) -> str:
    """What names of claims begin with by which this device is shared under this rule."""
    return f"shared-{hashlib.sha256(f'{device.id} {rule.label}'.encode()).hexdigest()[:12]}-"


def new_shared_name(prefix: str) -> str:
    """That no earlier claim had: a kubelet that still knows its name would prepare no other one."""
    return f"{prefix}{secrets.token_hex(4)}"


def is_shared_name(name: str) -> bool:
    """Whether a claim of one of bai's pods is called as those that are shared are, and no pod's own is."""
    return _NAME.fullmatch(name) is not None


def shared_manifest(
    ref: PodRef, device: Device, device_class: str, rule: SharingRule, owner: Mapping[str, Any]
) -> dict[str, Any]:
    """It goes with the last of the pods that own it."""
    body = claim_manifest(ref, [device], [device_class], owner)
    body["metadata"]["labels"] = {**labels.MANAGED, labels.SHARING: rule.label}
    body["spec"]["devices"]["config"] = [{"opaque": each} for each in _opaque(device, rule)]
    return body


def shared_status(
    device: Device,
    rule: SharingRule,
    pod: Mapping[str, Any],
    node: str,
    of_class: list[dict[str, Any]],
) -> dict[str, Any]:
    """As `allocation_status`, for the first who uses it."""
    own = [{"source": "FromClaim", "requests": [], "opaque": each} for each in _opaque(device, rule)]
    return allocation_status([device], pod, node, [*of_class, *own])


def joined_status(claim: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    """The claim's status with one more who uses it."""
    status = claim["status"]
    about = pod["metadata"]
    mine = {"resource": "pods", "name": about["name"], "uid": about["uid"]}
    return {**status, "reservedFor": [*(status.get("reservedFor") or ()), mine]}


def user_uids(claim: Mapping[str, Any]) -> frozenset[str]:
    """UIDs of the pods that a claim is of, or that use it."""
    users = (claim.get("status") or {}).get("reservedFor") or ()
    return frozenset(
        str(each.get("uid")) for each in (*users, *(claim["metadata"].get("ownerReferences") or ()))
    )


def _opaque(device: Device, rule: SharingRule) -> list[dict[str, Any]]:
    """`GpuConfig` of NVIDIA's driver; nothing where its usual way, to take turns, is what is wanted. Several
    users: projects are different Linux users."""
    if rule.means != "mps":
        return []
    limits: dict[str, Any] = {}
    if rule.most < _WHOLE:
        limits["defaultActiveThreadPercentage"] = max(1, rule.most // 10)
        if device.memory:
            mebibytes = max(1, device.memory * rule.most // _WHOLE // _MIB)
            limits["defaultPinnedDeviceMemoryLimit"] = f"{mebibytes}Mi"
    # By the alphabet: whoever patches a claim has the server write it anew so, and a claim that differs in
    # that from its earlier self is refused, for its specification is never changed.
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "GpuConfig",
        "sharing": {"mpsConfig": {**limits, "multiUser": True}, "strategy": "MPS"},
    }
    return [{"driver": device.driver, "parameters": parameters}]
