"""Devices that a node counts, and does not name: extended resources of GPU vendors' device plugins
(`nvidia.com/gpu`), with what feature discovery says of them in labels. Pure.

How many of them a container has, the kubelet keeps to; which ones, it chooses.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from providers.kubernetes.objects.quantity import parse_quantity
from schemas.hardware.anonymous import AnonymousDevice, parse_anonymous
from schemas.values.naturals import parse_natural

MOST = 256
"""Devices of one resource on one node: no machine has more, and a number beyond that is none."""
_MOST_NAMES = 64
_WHOLE = {"nvidia.com/gpu": ("nvidia", "cuda"), "amd.com/gpu": ("amd", "rocm")}
"""Resource → vendor and slot prefix."""
WHOLE_DEVICES = {f"{prefix}.device": name for name, (_, prefix) in _WHOLE.items()}
"""Slot → resource."""
DRIVERS = {"nvidia": "gpu.nvidia.com", "amd": "gpu.amd.com"}
"""Vendor → the DRA driver that publishes the same devices one by one."""
_MIG = "nvidia.com/mig-"
_PROFILE = r"(?P<profile>[1-9]g\.[1-9][0-9]{0,3}gb)(?P<media>\.me)?"
_INSTANCES = re.compile(rf"{re.escape(_MIG)}{_PROFILE}", re.ASCII)
_DIVIDED = re.compile(rf"(?P<product>.+)-MIG-{_PROFILE}", re.ASCII)
_SHARED_NAME, _SHARED_PRODUCT = ".shared", "-SHARED"
_SHARING = ("time-slicing", "mps")
_GOOGLE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
_GOOGLE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
_GIBIBYTES = re.compile(r"([1-9][0-9]{0,5})Gi?", re.ASCII)
_MOST_MEBIBYTES = 2**24


@dataclass(frozen=True, slots=True)
class CountedDevices:
    """Those of one resource on one node. `count`: all that there are; `allocatable`: the healthy ones;
    `profile`: of MIG, where each is an instance; `shared`: each is a turn on a GPU that others use as well.
    """

    resource: str
    vendor: str
    slot_prefix: str
    count: int
    allocatable: int
    profile: str = ""
    shared: bool = False
    model: str = ""
    memory: int = 0
    """Bytes of each; 0 is not known."""

    @property
    def slot(self) -> str:
        return f"{self.slot_prefix}.mig.{self.profile}" if self.profile else f"{self.slot_prefix}.device"

    @property
    def why_not(self) -> str:
        """Why none of them is given; empty when they are."""
        if self.shared:
            return (
                f"{self.resource}: {self.count} shares of GPUs (time slicing or MPS of the device plugin), "
                "which hold nobody to a part: none is given"
            )
        if self.count > MOST:
            return f"{self.resource}: the node says that it has {self.count}, which is no number of devices"
        return ""


def is_counted(resource: str) -> bool:
    """Whether a pod may ask for it."""
    return "/" in resource and (resource in _WHOLE or _INSTANCES.fullmatch(resource) is not None)


def counted_amounts(given: Mapping[str, Any] | None) -> dict[str, int]:
    """What a container or a pod asks for of these; nothing of what is not asked for."""
    found = {
        name: parse_quantity(str(text or "0")) for name, text in (given or {}).items() if is_counted(name)
    }
    return {name: amount for name, amount in found.items() if amount}


def counted_devices(devices: Iterable[str], node: str) -> Counter[str]:
    """How many of each resource of the node these ids are; others are left out."""
    return Counter(each.resource for each in _of_node(devices, node))


def is_counted_device(device: str, node: str) -> bool:
    return bool(counted_devices((device,), node))


def _of_node(devices: Iterable[str], node: str) -> Iterator[AnonymousDevice]:
    for each in map(parse_anonymous, devices):
        if each is not None and each.node == node and is_counted(each.resource):
            yield each


def limits_of(devices: Iterable[str], node: str) -> dict[str, str]:
    """As a container asks for them."""
    return {name: str(count) for name, count in sorted(counted_devices(devices, node).items())}


def held_by_count(placement: str, node: str) -> tuple[tuple[AnonymousDevice, str], ...]:
    """What a kernel's label says that it has of them, each with its slot; `placement`: as JSON."""
    try:
        grants = json.loads(placement)["devices"]
        slots = {str(each["id"]): str(each["slot"]) for each in grants}
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()
    return tuple((each, slots[each.id]) for each in _of_node(slots, node))


def node_counts(node: Mapping[str, Any]) -> tuple[CountedDevices, ...]:
    """Of a Node object, by the names of its resources."""
    status, labels = node.get("status") or {}, node["metadata"].get("labels") or {}
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    names = sorted(name for name in {*capacity, *allocatable} if is_counted(name.removesuffix(_SHARED_NAME)))
    found = []
    for name in names[:_MOST_NAMES]:
        has = parse_quantity(str(allocatable.get(name) or "0"))
        count = max(has, parse_quantity(str(capacity.get(name) or "0")))
        if count:
            found.append(_described(name, count, has, labels))
    return tuple(found)


def _described(name: str, count: int, allocatable: int, labels: Mapping[str, Any]) -> CountedDevices:
    """With what labels say: of GPU Feature Discovery (`nvidia.com/gpu.product`, `.memory` in MiB,
    `.replicas`, `.sharing-strategy`), of AMD's node labeller (`amd.com/gpu.product-name`, `.vram`), or of
    Google's clusters, which share and divide GPUs themselves."""
    plain = name.removesuffix(_SHARED_NAME)
    vendor, prefix = _WHOLE.get(plain, _WHOLE["nvidia.com/gpu"])
    product = str(labels.get(f"{plain}.product") or labels.get(f"{plain}.product-name") or "")
    divided = _DIVIDED.fullmatch(product.removesuffix(_SHARED_PRODUCT))
    return CountedDevices(
        name,
        vendor,
        prefix,
        count,
        allocatable,
        profile=_profile(plain, divided, labels),
        shared=plain != name or _is_shared(plain, product, labels),
        model=divided["product"] if divided else product.removesuffix(_SHARED_PRODUCT),
        memory=_memory(plain, labels),
    )


def _is_shared(name: str, product: str, labels: Mapping[str, Any]) -> bool:
    turns = parse_natural(str(labels.get(f"{name}.replicas") or "0"))
    return (
        turns is None
        or turns > 1
        or str(labels.get(f"{name}.sharing-strategy") or "") in _SHARING
        or product.endswith(_SHARED_PRODUCT)
        or bool(labels.get(_GOOGLE_SHARING))
    )


def _profile(name: str, divided: re.Match[str] | None, labels: Mapping[str, Any]) -> str:
    """As nvidia-smi writes it: names of resources have no `+`."""
    said = f"{_MIG}{labels.get(_GOOGLE_PARTITION) or ''}" if name in _WHOLE else name
    found = divided or _INSTANCES.fullmatch(said)
    return f"{found['profile']}{'+me' if found['media'] else ''}" if found else ""


def _memory(name: str, labels: Mapping[str, Any]) -> int:
    said = parse_natural(str(labels.get(f"{name}.memory") or ""), _MOST_MEBIBYTES)
    if said is not None:
        return said << 20
    found = _GIBIBYTES.fullmatch(str(labels.get(f"{name}.vram") or ""))
    return int(found[1]) << 30 if found else 0
