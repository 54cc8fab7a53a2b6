"""The devices of a kernel as claims: found by their ids, given by bai, checked before anything starts."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from providers.base import KernelSpec
from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import CONFLICT, NOT_FOUND, ApiRefusal
from providers.kubernetes.objects.claim import (
    allocation_status,
    claim_manifest,
    claim_names,
    claim_path,
    class_configs,
    holds_exactly,
    split_devices,
)
from providers.kubernetes.objects.counted import is_counted_device
from providers.kubernetes.objects.device import Device
from providers.kubernetes.objects.names import PodRef
from providers.kubernetes.objects.pod import is_owned, owner_reference
from providers.kubernetes.objects.sharing import is_shared_name, rule_of, shared_manifest, shared_status
from providers.kubernetes.observe.ledger import DeviceKey, DeviceLedger, HeldClaim
from providers.kubernetes.observe.observer import Observer
from providers.kubernetes.pods.find import get_or_none
from providers.kubernetes.pods.release import wait_until_released
from providers.kubernetes.pods.shared import join_claim, make_or_find
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
        if is_counted_device(name, spec.labels.node):
            continue  # By its number alone: `pods.counted`.
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
    names = _class_names(spec, devices, classes)
    ledger.follow()
    own, shared = divide(spec, devices)
    parts, given = split_devices(own), claim_names(pod)
    wanted = [False] * len(parts) + [True] * len(shared)
    if [is_shared_name(name) for name in given] != wanted:
        why = f"its pod was made for {len(given)} claims, and its devices need {len(wanted)}, or others"
        raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint="the next attempt makes another pod")
    joined = {device.key: name for device, name in zip(shared, given[len(parts) :], strict=True)}
    _require_free(client, ledger, spec, pod, devices, joined)
    for name, part in zip(given, parts, strict=False):
        configs = class_configs([classes.known[name] for name in sorted({names[d.key] for d in part})])
        status = allocation_status(part, pod, spec.labels.node, configs)
        its = PodRef(ref.namespace, name)
        body = claim_manifest(its, part, [names[device.key] for device in part], owner_reference(pod))
        ledger.catch_up(_give(client, its, pod, part, body, status))
    for device in shared:
        _join(client, observer, spec, pod, device, PodRef(ref.namespace, joined[device.key]), classes)
    # Two allocators can give one device away at the same time: each claim is locked for itself alone. Who
    # has chosen before it saw ours, and not written yet, is given the time to.
    if not fenced:
        ledger.settle()
    _require_free(client, ledger, spec, pod, devices, joined)


def _class_names(
    spec: KernelSpec, devices: Sequence[Device], classes: DeviceClasses
) -> Mapping[DeviceKey, str]:
    """Of each device. Raises KernelRefused."""
    names = {device.key: classes.class_of(device) for device in devices}
    lacking = next((device.driver for device in devices if not names[device.key]), None)
    if lacking is not None:
        hint = f"the driver's installation makes one called {lacking}"
        why = f"the cluster has no device class for {lacking}"
        raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint=hint)
    return names


def divide(spec: KernelSpec, devices: Sequence[Device]) -> tuple[tuple[Device, ...], tuple[Device, ...]]:
    """Those that are the kernel's alone, and those that it has a part of."""
    return (
        tuple(device for device in devices if device.id not in spec.parts),
        tuple(device for device in devices if device.id in spec.parts),
    )


def _join(
    client: ApiClient, observer: Observer, spec: KernelSpec, pod: Object, device: Device, ref: PodRef,
    classes: DeviceClasses,
) -> None:  # fmt: skip
    """Have a part of a device beside others of this namespace."""
    rule, device_class = rule_of(spec.share), classes.class_of(device)
    configs = class_configs([classes.known[device_class]])
    status = shared_status(device, rule, pod, spec.labels.node, configs)
    body = shared_manifest(ref, device, device_class, rule, owner_reference(pod))
    observer.ledger.catch_up(join_claim(client, ref, pod, device, rule, body, status))
    observer.shared_claims.note_held(ref.namespace, device, rule)


def _give(
    client: ApiClient, ref: PodRef, pod: Object, devices: Sequence[Device], body: Object, status: Object
) -> Object:
    """The claim, once it gives this pod these devices."""
    uid = pod["metadata"]["uid"]
    claim = make_or_find(client, ref, body)
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
            if refusal.status not in (CONFLICT, NOT_FOUND):
                raise
        now = get_or_none(client, claim_path(ref))
        if now is None:  # The cluster deletes what belongs to a pod that somebody has deleted.
            why = f"claim {ref.namespace}/{ref.name} was removed while it was made"
            raise ProviderUnavailable(provider=NAME, why=why)
        claim = now
    raise ProviderUnavailable(provider=NAME, why=f"claim {ref.name} changes all the time")


def _require_free(
    client: ApiClient,
    ledger: DeviceLedger,
    spec: KernelSpec,
    pod: Object,
    devices: Sequence[Device],
    joined: Mapping[DeviceKey, str],
) -> None:
    """Raises KernelRefused where another pod's claim has one of these devices, ProviderUnavailable where it
    does not give back what it is about to. `joined`: claims by which this pod shares one with others."""
    about = pod["metadata"]
    held: dict[HeldClaim, Device] = {}
    for device in devices:
        for claim in ledger.holders(device.key):
            shares = (claim.namespace, claim.name) == (about["namespace"], joined.get(device.key))
            if claim.owner != about["uid"] and not shares:
                held.setdefault(claim, device)
    keys = {device.key for device in devices}
    # What the ledger says of others may be over: its watch tells it a moment later.
    for claim, device in held.items():
        wait_until_released(client, spec, claim, keys, device.id)
