"""A kernel's resource claim: which devices it has, said by bai as a scheduler would say it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from providers.kubernetes.objects import labels
from providers.kubernetes.objects.device import STANDARD, Device
from providers.kubernetes.objects.names import RESOURCE_API, PodRef

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Without it, the cluster's controller would not take the devices back when the pod is gone."""
MOST_DEVICES = 32
"""In one claim (resource.k8s.io/v1)."""


def split_devices(devices: Sequence[Device]) -> list[tuple[Device, ...]]:
    """As many claims as they need."""
    return [tuple(devices[at : at + MOST_DEVICES]) for at in range(0, len(devices), MOST_DEVICES)]


def claim_name(given: str, number: int) -> str:
    """Of a pod's claim, from 0 on; `given`: what its objects are called (`PodRef.new_given`)."""
    return given if number == 0 else f"{given}-{number + 1}"


def claim_manifest(
    ref: PodRef, devices: Sequence[Device], classes: Sequence[str], owner: Mapping[str, Any]
) -> dict[str, Any]:
    """One request for each device, which says which one it is; `classes`: of each of them, in the same
    order."""
    requests = [
        {
            "name": f"device-{number}",
            "exactly": {
                "deviceClassName": device_class,
                "allocationMode": "ExactCount",
                "count": 1,
                "selectors": [{"cel": {"expression": _expression(device)}}],
            },
        }
        for number, (device, device_class) in enumerate(zip(devices, classes, strict=True))
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {**labels.MANAGED, labels.KERNEL: owner["name"]},
            "finalizers": [FINALIZER],
            "ownerReferences": [dict(owner)],
        },
        "spec": {"devices": {"requests": requests}},
    }


def _expression(device: Device) -> str:
    """CEL that only this device fulfils."""
    driver = f'device.driver == "{device.driver}"'
    if device.cpu is not None:
        return f'{driver} && device.attributes["{device.driver}"].cpuID == {device.cpu}'
    if device.attributes.get("uuid"):
        return f'{driver} && device.attributes["{device.driver}"].uuid == "{device.attributes["uuid"]}"'
    pci = device.attributes.get(f"{STANDARD}pciBusID")
    if pci:
        return f'{driver} && device.attributes["resource.kubernetes.io"].pciBusID == "{pci}"'
    return driver


def allocation_status(
    devices: Sequence[Device], pod: Mapping[str, Any], node: str, configs: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The claim's status: these devices, on this node, for this pod. `configs`: of the device classes, which
    drivers read here."""
    results = [
        {"request": f"device-{number}", "driver": device.driver, "pool": device.pool, "device": device.name}
        for number, device in enumerate(devices)
    ]
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {
        "allocation": {
            "devices": {"results": results, **({"config": list(configs)} if configs else {})},
            "nodeSelector": {"nodeSelectorTerms": [here]},
        },
        "reservedFor": [{"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}],
    }


def class_configs(classes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What device classes say to their drivers, as an allocation has it."""
    return [
        {"source": "FromClass", "requests": [], **{"opaque": each["opaque"]}}
        for found in classes
        for each in (found.get("spec") or {}).get("config") or ()
        if each.get("opaque")
    ]


def claim_names(pod: Mapping[str, Any]) -> list[str]:
    """Of the claims of a pod, those made from templates, and for its extended resources, among them."""
    status = pod.get("status") or {}
    made = {
        each.get("name"): each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()
    }
    named = [
        each.get("resourceClaimName") or made.get(each.get("name"))
        for each in (pod.get("spec") or {}).get("resourceClaims") or ()
    ]
    named.append((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return [str(name) for name in named if name]


def claim_path(ref: PodRef) -> str:
    return f"{RESOURCE_API}/namespaces/{ref.namespace}/resourceclaims/{ref.name}"


def holds_exactly(claim: Mapping[str, Any], devices: Sequence[Device], pod_uid: str) -> bool | None:
    """Whether a claim that is there gives this pod these devices; None when it gives nobody any."""
    status = claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results")
    if not results:
        return None
    has = {(each.get("driver"), each.get("pool"), each.get("device")) for each in results}
    whose = {each.get("uid") for each in status.get("reservedFor") or ()}
    return has == {device.key for device in devices} and whose == {pod_uid}


def is_held(claim: Mapping[str, Any], pod_uid: str) -> bool:
    """Whether a claim still gives a pod its devices, or nobody has yet taken them back."""
    status = claim.get("status") or {}
    uids = {each.get("uid") for each in status.get("reservedFor") or ()}
    return pod_uid in uids or (not uids and bool(status.get("allocation")))
