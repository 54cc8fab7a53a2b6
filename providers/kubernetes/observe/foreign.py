"""What others use of the nodes: pods and claims that are no kernels of bai's. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from providers.foreign_use import ForeignUse
from providers.kubernetes.objects.amounts import CPU, MEMORY, PAGES, parse_amounts
from providers.kubernetes.objects.counted import counted_amounts, is_counted
from providers.kubernetes.observe.devices import DeviceIndex
from providers.kubernetes.observe.ledger import DeviceKey, HeldClaim
from providers.kubernetes.observe.nodes import ClusterNode

_NONE: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_NAMED = 2
"""Pods of a node that are told by name."""


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """A pod of others that holds something on a node."""

    name: str
    """`namespace/name`."""
    node: str
    asked: Counter[str]
    """By slot: thousandths of cores, and bytes."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """Devices that its node counts, by resource."""


def parse_foreign_pod(pod: Mapping[str, Any]) -> ForeignPod | None:
    """None for one that holds nothing: bound nowhere, or ended."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    node = str(spec.get("nodeName") or "")
    if not node or status.get("phase") in ("Succeeded", "Failed"):
        return None
    # A pod needs what its containers need together, or the hungriest of those that begin before them; those
    # that stay (restartPolicy Always) count with all that come after them (KEP-753).
    stays: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for each in spec.get("initContainers") or ():
        asked = stays + _requests(each)
        most |= asked
        if each.get("restartPolicy") == "Always":
            stays = asked
    needed = sum(map(_requests, spec.get("containers") or ()), stays.copy()) | most
    for slot, amount in _requests(spec).items():
        needed[slot] = amount  # Of the pod as a whole.
    needed += parse_amounts(spec.get("overhead"))
    name = f"{metadata.get('namespace')}/{metadata.get('name')}"
    counted = {each: needed.pop(each) for each in filter(is_counted, tuple(needed))}
    return ForeignPod(name, node, needed, counted)


def _requests(asks: Mapping[str, Any]) -> Counter[str]:
    """Of a container, or of a pod as a whole."""
    requests = (asks.get("resources") or {}).get("requests")
    found = parse_amounts(requests)
    found.update(counted_amounts(requests))
    return found


def foreign_uses(
    nodes: Iterable[ClusterNode],
    pods: Iterable[ForeignPod],
    devices: DeviceIndex,
    holders: Mapping[DeviceKey, tuple[HeldClaim, ...]],
    own_pods: frozenset[tuple[str, str]],
    counted: Mapping[str, tuple[str, ...]] = _NONE,
) -> tuple[ForeignUse, ...]:
    """One for each of these nodes that others use, its own system among them. `own_pods`: namespaces and UIDs
    of bai's, whose claims are bai's: a claim elsewhere that names one of them is somebody else's; `counted`:
    what pods have of devices that are counted."""
    by_node: dict[str, list[ForeignPod]] = {}
    for pod in pods:
        by_node.setdefault(pod.node, []).append(pod)
    taken: dict[str, dict[str, str]] = {}
    for device in devices.all:
        holding = holders.get(device.key, ())
        others = [each for each in holding if not each.is_of(own_pods)]
        if others:
            claim = others[0]
            taken.setdefault(device.node, {})[device.id] = f"claim {claim.namespace}/{claim.name}"
        elif device.tainted:
            taken.setdefault(device.node, {})[device.id] = f"taint {device.tainted}"
    found = []
    for node in sorted(nodes, key=lambda each: each.name):
        there, given = by_node.get(node.name, []), taken.get(node.name, {})
        asked = sum((pod.asked for pod in there), Counter(node.kept_hugepages))
        use = ForeignUse(
            node=node.name,
            owner=_owner(there, sorted(set(given.values()))),
            cpu_milli=node.kept_cpu_milli + asked[CPU],
            memory=node.kept_memory + asked[MEMORY],
            devices=tuple(sorted((*given, *counted.get(node.name, ())))),
            hugepages={slot: asked[slot] for slot in PAGES if asked[slot]},
        )
        if use.cpu_milli or use.memory or use.devices or use.hugepages:
            found.append(use)
    return tuple(found)


def _owner(pods: list[ForeignPod], claims: list[str]) -> str:
    names = [*claims, *sorted(pod.name for pod in pods if pod.asked or pod.counted)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more or "the kubelet's reserve"
