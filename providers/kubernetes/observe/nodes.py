"""What a Node object says. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from providers.kubernetes.objects.amounts import PAGES
from providers.kubernetes.objects.counted import CountedDevices, node_counts
from providers.kubernetes.objects.names import TAINT, TOLERATED
from providers.kubernetes.objects.quantity import parse_quantity
from schemas.hardware.cpulist import MAX_CPU


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """`unreachable`: why the cluster has no contact with it, empty when it has; `cordoned`: why
    nothing new is to go there; `fenced`: that other schedulers stay away (a taint of bai's)."""

    name: str
    unreachable: str = ""
    cordoned: str = ""
    fenced: bool = False
    cpus: int = 0
    """Logical CPUs."""
    memory: int = 0
    """Bytes."""
    kept_cpu_milli: int = 0
    kept_memory: int = 0
    """What the kubelet keeps for itself and the system: pods get the rest. Huge pages are none of it."""
    hugepages: Mapping[str, int] = field(default_factory=dict)
    """Slot → bytes, set aside of the memory."""
    kept_hugepages: Mapping[str, int] = field(default_factory=dict)
    architecture: str = ""
    kernel: str = ""
    system: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those that are asked for."""
    counted: tuple[CountedDevices, ...] = ()
    """What device plugins count."""


def parse_node(node: Mapping[str, Any], labels: Collection[str] = ()) -> ClusterNode:
    """`labels`: keys of those that are kept."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    capacity, about = status.get("capacity") or {}, status.get("nodeInfo") or {}
    offered = {**capacity, **(status.get("allocatable") or {})}
    taints = spec.get("taints") or ()
    pages = {slot: amount for slot in PAGES if (amount := _amount(capacity, slot))}
    kept = {slot: max(0, amount - _amount(offered, slot)) for slot, amount in pages.items()}
    return ClusterNode(
        name=str(metadata["name"]),
        unreachable=_unreachable(status),
        cordoned=_cordoned(spec, taints),
        fenced=any(taint.get("key") == TAINT for taint in taints),
        cpus=min(_amount(capacity, "cpu"), MAX_CPU + 1),
        memory=_amount(capacity, "memory"),
        kept_cpu_milli=max(0, _amount(capacity, "cpu", milli=True) - _amount(offered, "cpu", milli=True)),
        kept_memory=max(0, _amount(capacity, "memory") - _amount(offered, "memory") - sum(pages.values())),
        hugepages=pages,
        kept_hugepages={slot: amount for slot, amount in kept.items() if amount},
        architecture=_ARCHITECTURES.get(str(about.get("architecture")), str(about.get("architecture") or "")),
        kernel=str(about.get("kernelVersion") or ""),
        system=str(about.get("osImage") or ""),
        labels={key: str(value) for key, value in (metadata.get("labels") or {}).items() if key in labels},
        counted=node_counts(node),
    )


def _amount(amounts: Mapping[str, Any], name: str, *, milli: bool = False) -> int:
    return parse_quantity(str(amounts.get(name) or "0"), milli=milli)


_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def _cordoned(spec: Mapping[str, Any], taints: Iterable[Mapping[str, Any]]) -> str:
    """That somebody has cordoned it, or a taint that would drive our pods out at once. Taints that only keep
    pods away (NoSchedule) are for those who have not chosen the node by name."""
    if spec.get("unschedulable"):
        return "unschedulable in the cluster"
    driven = (str(each.get("key")) for each in taints if each.get("effect") == "NoExecute")
    found = next((key for key in driven if key not in TOLERATED), "")
    return f"its taint {found} drives pods out" if found else ""


def _unreachable(status: Mapping[str, Any]) -> str:
    for each in status.get("conditions") or ():
        if each.get("type") == "Ready":
            if each.get("status") == "True":
                return ""
            said = each.get("message") or each.get("reason") or "it does not say why"
            return f"the node is not ready: {said}"[:300]
    return "its kubelet has never said that it is ready"
