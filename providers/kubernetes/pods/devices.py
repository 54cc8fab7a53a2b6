"""The devices of a kernel as claims: found by their ids, given by bai, checked before anything starts."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from providers.base import KernelSpec
from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import CONFLICT, ApiRefusal
from providers.kubernetes.objects.claim import (
    allocation_status,
    claim_manifest,
    claim_names,
    claim_path,
    class_configs,
    holds_exactly,
    split_devices,
)
from providers.kubernetes.objects.device import Device
from providers.kubernetes.objects.names import PodRef, namespaced
from providers.kubernetes.objects.pod import is_owned, owner_reference
from providers.kubernetes.observe.ledger import DeviceLedger, HeldClaim
from providers.kubernetes.observe.observer import Observer
from providers.kubernetes.pods.find import get_or_none
from providers.kubernetes.pods.release import wait_until_released
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderUnavailable

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class DeviceClasses:
    """The cluster's device classes, by name."""

    known: Mapping[str, Object]

    def class_of(self, device: Device) -> str:
        """The class of such devices: of their kind (`mig.nvidia.com`), else of their driver; empty: none."""
        kind = f"{device.attributes.get('type')}.{device.driver.partition('.')[2]}"
        return next((name for name in (kind, device.driver) if name in self.known), "")


def wanted_devices(
    spec: KernelSpec, here: Sequence[Device], told_cores: Container[str] = ()
) -> tuple[Device, ...]:
    """The kernel's GPUs, NICs and, where its node publishes CPUs, cores, in its order. `told_cores`: nodes
    whose CPUs were published when that was last told. Raises KernelRefused where its node publishes no such
    device."""
    known = {device.id: device for device in here} | {d.rdma: d for d in here if d.rdma}
    cpus = {device.cpu: device for device in here if device.cpu is not None}
    found = []
    for name in (*spec.devices, *spec.nics):
        if name not in known:
            raise _not_published(spec, f"device {name}")
        found.append(known[name])
    for cpu in spec.cpus if cpus or spec.labels.node in told_cores else ():
        if cpu not in cpus:
            raise _not_published(spec, f"CPU {cpu}")
        found.append(cpus[cpu])
    return tuple(found)


def _not_published(spec: KernelSpec, what: str) -> KernelRefused:
    node = spec.labels.node
    hint = f"`kubectl get resourceslices --field-selector spec.nodeName={node}` shows what there is"
    why = f"no DRA driver publishes {what} of node {node}"
    return KernelRefused(provider=NAME, kernel=spec.id, why=why, hint=hint)


def allocate(
    client: ApiClient,
    observer: Observer,
    spec: KernelSpec,
    ref: PodRef,
    pod: Object,
    devices: Sequence[Device],
    *,
    fenced: bool,
) -> None:
    """Make the kernel's claims and give them these devices; what is so already stays. `fenced`: other
    schedulers stay away from the node. Raises KernelRefused where somebody else has one of them,
    ProviderUnavailable, ApiRefusal, OSError."""
    ledger, classes = observer.ledger, DeviceClasses(observer.device_classes())
    names = {device.key: classes.class_of(device) for device in devices}
    lacking = next((device.driver for device in devices if not names[device.key]), None)
    if lacking is not None:
        hint = f"the driver's installation makes one called {lacking}"
        why = f"the cluster has no device class for {lacking}"
        raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint=hint)
    ledger.follow()
    _require_free(client, ledger, spec, pod, devices)
    parts, own_names = split_devices(devices), claim_names(pod)
    if len(parts) != len(own_names):
        why = f"its pod was made for {len(own_names)} claims, and its devices need {len(parts)}"
        raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint="the next attempt makes another pod")
    for name, part in zip(own_names, parts, strict=True):
        configs = class_configs([classes.known[name] for name in sorted({names[d.key] for d in part})])
        status = allocation_status(part, pod, spec.labels.node, configs)
        own = PodRef(ref.namespace, name)
        body = claim_manifest(own, part, [names[device.key] for device in part], owner_reference(pod))
        ledger.catch_up(_give(client, own, pod, part, body, status))
    # Two allocators can give one device away at the same time: each claim is locked for itself alone. Who
    # has chosen before it saw ours, and not written yet, is given the time to.
    if not fenced:
        ledger.settle()
    _require_free(client, ledger, spec, pod, devices)


def _give(
    client: ApiClient, ref: PodRef, pod: Object, devices: Sequence[Device], body: Object, status: Object
) -> Object:
    """The claim, once it gives this pod these devices."""
    uid = pod["metadata"]["uid"]
    claim = _make_or_find(client, ref, body)
    if claim["metadata"].get("deletionTimestamp") or not is_owned(claim, pod):
        why = f"claim {ref.namespace}/{ref.name} of an earlier pod is still there"
        raise ProviderUnavailable(provider=NAME, why=why)
    for _ in range(_ATTEMPTS):
        has = holds_exactly(claim, devices, uid)
        if has:
            return claim
        if has is False:
            why = f"claim {ref.namespace}/{ref.name} has other devices"
            raise ProviderUnavailable(provider=NAME, why=why)
        try:
            return client.replace(f"{claim_path(ref)}/status", {**claim, "status": status})
        except ApiRefusal as refusal:
            if refusal.status != CONFLICT:
                raise
        claim = client.get(claim_path(ref))
    raise ProviderUnavailable(provider=NAME, why=f"claim {ref.name} changes all the time")


def _make_or_find(client: ApiClient, ref: PodRef, body: Object) -> Object:
    try:
        return client.create(namespaced("resourceclaims", ref.namespace), body)
    except ApiRefusal:
        # An attempt before, or one at the same time; a quota refuses it as well where it is there already.
        found = get_or_none(client, claim_path(ref))
        if found is None:
            raise
        return found


def _require_free(
    client: ApiClient, ledger: DeviceLedger, spec: KernelSpec, pod: Object, devices: Sequence[Device]
) -> None:
    """Raises KernelRefused where another pod's claim has one of these devices, ProviderUnavailable where it
    does not give back what it is about to."""
    uid = pod["metadata"]["uid"]
    held: dict[HeldClaim, Device] = {}
    for device in devices:
        for claim in ledger.holders(device.key):
            if claim.owner != uid:
                held.setdefault(claim, device)
    keys = {device.key for device in devices}
    # What the ledger says of others may be over: its watch tells it a moment later.
    for claim, device in held.items():
        wait_until_released(client, spec, claim, keys, device.id)
