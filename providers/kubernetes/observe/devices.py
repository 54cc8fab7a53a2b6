"""Devices that drivers publish (ResourceSlices), and which of them are given to whom (ResourceClaims). Pure.

A device has three names in the API (driver, pool, device), which may change when its node is started again;
bai knows it by its UUID, or its PCI address where it has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from providers.kubernetes.objects.device import STANDARD, Device


class DeviceIndex:
    """Devices, by node and by their names in the API. Never changed."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self.all = tuple(devices)
        self._by_node: dict[str, list[Device]] = {}
        for device in self.all:
            self._by_node.setdefault(device.node, []).append(device)
        self.by_key = {device.key: device for device in self.all}

    def nodes(self) -> Iterable[str]:
        """Those that have any."""
        return self._by_node

    def of(self, node: str) -> Sequence[Device]:
        return self._by_node.get(node, ())

    def id_of(self, key: tuple[str, str, str]) -> str:
        """What bai knows it by; its names in the API where nobody publishes it any more."""
        device = self.by_key.get(key)
        return device.id if device is not None else "/".join(key)


def devices_of(slices: Iterable[Mapping[str, Any]]) -> tuple[Device, ...]:
    """Of complete pools, in their newest generation; what is not of one node is left out."""
    pools: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in slices:
        spec = each.get("spec") or {}
        pool = spec.get("pool") or {}
        pools.setdefault((str(spec.get("driver")), str(pool.get("name"))), []).append(spec)
    found: list[Device] = []
    for (driver, pool_name), specs in pools.items():
        newest = max(_generation(spec) for spec in specs)
        current = [spec for spec in specs if _generation(spec) == newest]
        if len(current) < int((current[0].get("pool") or {}).get("resourceSliceCount") or 1):
            continue  # It is being published: what is missing may be what makes the rest right.
        for spec in current:
            node = str(spec.get("nodeName") or "")
            if node:
                found += [_device(driver, pool_name, node, each) for each in spec.get("devices") or ()]
    return tuple(found)


def _generation(spec: Mapping[str, Any]) -> int:
    return int((spec.get("pool") or {}).get("generation") or 0)


def _device(driver: str, pool: str, node: str, said: Mapping[str, Any]) -> Device:
    attributes = {}
    for name, value in (said.get("attributes") or {}).items():
        plain = str(name).removeprefix(f"{driver}/")
        attributes[plain] = next((v for v in value.values()), None) if isinstance(value, dict) else None
    capacity = {
        str(name).removeprefix(f"{driver}/"): str(value.get("value"))
        for name, value in (said.get("capacity") or {}).items()
        if isinstance(value, dict)
    }
    name = str(said.get("name"))
    taints = [each for each in said.get("taints") or () if each.get("effect") in ("NoSchedule", "NoExecute")]
    return Device(
        id=str(attributes.get("uuid") or attributes.get(f"{STANDARD}pciBusID") or f"{pool}/{name}"),
        driver=driver,
        pool=pool,
        name=name,
        node=node,
        attributes=attributes,
        capacity=capacity,
        tainted=str(taints[0].get("key")) if taints else "",
        several=said.get("allowMultipleAllocations") is True,
    )
