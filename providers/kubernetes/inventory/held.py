"""What a pod holds: shares of its node, and the devices of its claims. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from providers.kubernetes.objects.claim import claim_names
from providers.kubernetes.objects.counted import is_counted
from providers.kubernetes.objects.device import Device
from providers.kubernetes.objects.quantity import parse_quantity
from providers.kubernetes.observe.hardware import VENDORS
from providers.kubernetes.observe.ledger import DeviceKey
from schemas.values.quantities import format_cpu, format_memory, is_exclusive

_SHARED = ("adminAccess", "shareID", "consumedCapacity")


@dataclass(frozen=True, slots=True)
class Held:
    """`resources`: as a session's document has them; `devices`: ids, each with its slot."""

    resources: Mapping[str, Any] = field(default_factory=dict)
    cpu_milli: int = 0
    memory: int = 0
    devices: tuple[tuple[str, str], ...] = ()
    obstacles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterDevices:
    """Claims by namespace and name, and devices by their names in the API."""

    claims: Mapping[tuple[str, str], Mapping[str, Any]]
    devices: Mapping[DeviceKey, Device]
    counted: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """UID of a pod → what it has of devices that its node counts: ids, each with its slot."""

    @classmethod
    def of(
        cls,
        claims: Iterable[Mapping[str, Any]],
        devices: Iterable[Device],
        counted: Mapping[str, tuple[tuple[str, str], ...]] | None = None,
    ) -> ClusterDevices:
        by_name = {(str(c["metadata"]["namespace"]), str(c["metadata"]["name"])): c for c in claims}
        return cls(by_name, {device.key: device for device in devices}, counted or {})


def read_held(pod: Mapping[str, Any], container: Mapping[str, Any], known: ClusterDevices) -> Held:
    asked = container.get("resources") or {}
    requests, limits = asked.get("requests") or {}, asked.get("limits") or {}
    cpu = _amount(requests, "cpu", milli=True) or _amount(limits, "cpu", milli=True)
    memory = _amount(limits, "memory") or _amount(requests, "memory")
    scratch = _amount(limits, "ephemeral-storage")
    resources: dict[str, Any] = {}
    if cpu:
        resources["cpu"] = format_cpu(cpu)
    for name, amount in (("memory", memory), ("scratch", scratch)):
        if amount:
            resources[name] = format_memory(amount)
    devices, obstacles = _read_devices(pod, known)
    counted = known.counted.get(str(pod["metadata"]["uid"]), ())
    devices += counted
    for _, slot in devices:
        resources[slot] = resources.get(slot, 0) + 1
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    obstacles += [
        f"which {name} it has, its device plugin does not tell"
        for name in sorted({*requests, *limits} - {"cpu", "memory", "ephemeral-storage"})
        if name not in _claimed(extended) and not (counted and is_counted(name))
    ]
    return Held(
        resources, cpu, memory, tuple(devices), tuple(obstacles), tuple(_notes(requests, limits, cpu, memory))
    )


def _claimed(extended: Mapping[str, Any]) -> set[str]:
    """Names of resources that a claim stands for, which the scheduler has made."""
    return {str(each.get("resourceName")) for each in extended.get("requestMappings") or ()}


def _notes(requests: Mapping[str, Any], limits: Mapping[str, Any], cpu: int, memory: int) -> Iterable[str]:
    if not cpu or not memory:
        lacking = " and ".join(word for word, n in (("CPU", cpu), ("memory", memory)) if not n)
        yield f"it asks for no {lacking}, and plans count none"
    if is_exclusive(cpu):
        yield "its cores are its own"
    if cpu and _amount(limits, "cpu", milli=True) != cpu:
        yield "its CPU limit is its request"
    if memory and (_amount(requests, "memory") or memory) != memory:
        yield "its memory request is its limit"


def _amount(amounts: Mapping[str, Any], name: str, *, milli: bool = False) -> int:
    return parse_quantity(str(amounts.get(name) or "0"), milli=milli)


def _read_devices(pod: Mapping[str, Any], known: ClusterDevices) -> tuple[list[tuple[str, str]], list[str]]:
    found: list[tuple[str, str]] = []
    obstacles: list[str] = []
    metadata = pod["metadata"]
    for name in claim_names(pod):
        claim = known.claims.get((str(metadata["namespace"]), name))
        obstacle = _claim_obstacle(claim, str(metadata["uid"]))
        if claim is None or obstacle:
            obstacles.append(f"its claim {name} {obstacle}")
            continue
        for result in claim["status"]["allocation"]["devices"]["results"]:
            device = known.devices.get((result.get("driver"), result.get("pool"), result.get("device")))
            slot = _slot(device) if device is not None else ""
            if device is None or not slot or device.node != (pod.get("spec") or {}).get("nodeName"):
                what = f"{result.get('driver')} {result.get('device')}"
                obstacles.append(f"its claim {name} has {what}, which is no GPU that its node publishes")
            else:
                found.append((device.id, slot))
    return found, obstacles


def _claim_obstacle(claim: Mapping[str, Any] | None, pod_uid: str) -> str:
    status = (claim or {}).get("status") or {}
    devices = (status.get("allocation") or {}).get("devices") or {}
    results = devices.get("results")
    if not results:
        return "has no devices"
    if [each.get("uid") for each in status.get("reservedFor") or ()] != [pod_uid]:
        return "is not its own alone"
    if any(each.get(mark) for each in results for mark in _SHARED):
        return "has parts of devices"
    if any(each.get("source") == "FromClaim" for each in devices.get("config") or ()):
        return "configures its driver"
    return ""


def _slot(device: Device) -> str:
    """Empty for what sessions do not ask for."""
    vendor = VENDORS.get(device.driver)
    if vendor is None:
        return ""
    if device.attributes.get("type") == "mig":
        return f"{vendor[1]}.mig.{device.attributes.get('profile')}"
    return f"{vendor[1]}.device" if device.attributes.get("type", "gpu") == "gpu" else ""
