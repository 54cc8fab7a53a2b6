"""What others use of the nodes: pods and claims that are no kernels of bai's. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from providers.foreign_use import ForeignUse
from providers.kubernetes.objects.quantity import parse_quantity
from providers.kubernetes.observe.devices import DeviceIndex
from providers.kubernetes.observe.ledger import DeviceKey, HeldClaim
from providers.kubernetes.observe.nodes import ClusterNode

_NAMED = 2
"""Pods of a node that are told by name."""


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """A pod of others that holds something on a node."""

    name: str
    """`namespace/name`."""
    node: str
    cpu_milli: int
    memory: int


def parse_foreign_pod(pod: Mapping[str, Any]) -> ForeignPod | None:
    """None for one that holds nothing: bound nowhere, or ended."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    node = str(spec.get("nodeName") or "")
    if not node or status.get("phase") in ("Succeeded", "Failed"):
        return None
    containers = spec.get("containers") or ()
    cpu = sum(_asked(each, "cpu", milli=True) for each in containers)
    memory = sum(_asked(each, "memory") for each in containers)
    # A pod needs what its containers need together, or the hungriest of those that begin before them; those
    # that stay (restartPolicy Always) count with all that come after them (KEP-753).
    stays, most = (0, 0), (0, 0)
    for each in spec.get("initContainers") or ():
        asked = stays[0] + _asked(each, "cpu", milli=True), stays[1] + _asked(each, "memory")
        most = max(most[0], asked[0]), max(most[1], asked[1])
        if each.get("restartPolicy") == "Always":
            stays = asked
    cpu, memory = max(cpu + stays[0], most[0]), max(memory + stays[1], most[1])
    whole = ((spec.get("resources") or {}).get("requests")) or {}
    overhead = spec.get("overhead") or {}
    if whole:
        cpu = parse_quantity(str(whole.get("cpu") or "0"), milli=True) or cpu
        memory = parse_quantity(str(whole.get("memory") or "0")) or memory
    cpu += parse_quantity(str(overhead.get("cpu") or "0"), milli=True)
    memory += parse_quantity(str(overhead.get("memory") or "0"))
    name = f"{metadata.get('namespace')}/{metadata.get('name')}"
    return ForeignPod(name, node, cpu, memory)


def _asked(container: Mapping[str, Any], name: str, *, milli: bool = False) -> int:
    requests = (container.get("resources") or {}).get("requests") or {}
    return parse_quantity(str(requests.get(name) or "0"), milli=milli)


def foreign_uses(
    nodes: Iterable[ClusterNode],
    pods: Iterable[ForeignPod],
    devices: DeviceIndex,
    holders: Mapping[DeviceKey, tuple[HeldClaim, ...]],
    own_pods: frozenset[tuple[str, str]],
) -> tuple[ForeignUse, ...]:
    """One for each of these nodes that others use, its own system among them. `own_pods`: namespaces and UIDs
    of bai's, whose claims are bai's: a claim elsewhere that names one of them is somebody else's."""
    by_node: dict[str, list[ForeignPod]] = {}
    for pod in pods:
        by_node.setdefault(pod.node, []).append(pod)
    taken: dict[str, dict[str, str]] = {}
    for device in devices.all:
        holding = holders.get(device.key, ())
        others = [each for each in holding if (each.namespace, each.owner) not in own_pods]
        if others:
            claim = others[0]
            taken.setdefault(device.node, {})[device.id] = f"claim {claim.namespace}/{claim.name}"
        elif device.tainted:
            taken.setdefault(device.node, {})[device.id] = f"taint {device.tainted}"
    found = []
    for node in sorted(nodes, key=lambda each: each.name):
        there, given = by_node.get(node.name, []), taken.get(node.name, {})
        use = ForeignUse(
            node=node.name,
            owner=_owner(there, sorted(set(given.values()))),
            cpu_milli=node.kept_cpu_milli + sum(pod.cpu_milli for pod in there),
            memory=node.kept_memory + sum(pod.memory for pod in there),
            devices=tuple(sorted(given)),
        )
        if use.cpu_milli or use.memory or use.devices:
            found.append(use)
    return tuple(found)


def _owner(pods: list[ForeignPod], claims: list[str]) -> str:
    names = [*claims, *sorted(pod.name for pod in pods if pod.cpu_milli or pod.memory)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more or "the kubelet's reserve"
