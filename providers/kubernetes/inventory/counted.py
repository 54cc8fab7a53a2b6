"""Which of a node's devices that are known by number alone the pods of others are taken to have. Pure.

A number stands for how many a pod has, and for nothing that could be looked up: each pod is given the lowest
that nobody else has; pods that are bai's already keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from providers.kubernetes.objects.counted import CountedDevices
from providers.kubernetes.objects.device import Device
from providers.kubernetes.observe.devices import DeviceIndex
from providers.kubernetes.observe.foreign import parse_foreign_pod
from providers.kubernetes.observe.nodes import parse_node
from providers.kubernetes.observe.plugins.offers import counted_ids, devices_given
from providers.kubernetes.observe.pods import is_ours, parse_pod
from schemas.kinds.parts.kubernetes import Kubernetes

Grants = tuple[tuple[str, str], ...]
"""Ids, each with its slot."""


def count_devices(
    nodes: Iterable[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]],
    devices: Iterable[Device],
    options: Kubernetes,
) -> Mapping[str, Grants]:
    """By the UID of a pod; one that asks for more than there is has none."""
    published = DeviceIndex(devices)
    given = {
        (node.name, each.resource): each
        for node in map(parse_node, nodes)
        for each in devices_given(node, published.of(node.name))
    }
    if not given:
        return {}
    free = {key: list(counted_ids(key[0], each)) for key, each in given.items()}
    strangers = []
    found = {}
    for pod in pods:
        own = parse_pod(pod) if is_ours(pod, options) else None
        if own is None:
            strangers.append(pod)
            continue
        known = [each for each in own.held if each.id in free.get((each.node, each.resource), ())]
        found[own.uid] = tuple((each.id, given[each.node, each.resource].slot) for each in known)
        for each in known:
            free[each.node, each.resource].remove(each.id)
    for pod in sorted(strangers, key=_key):
        if grants := _grants(pod, given, free):
            found[str(pod["metadata"]["uid"])] = grants
    return found


def _grants(
    pod: Mapping[str, Any],
    given: Mapping[tuple[str, str], CountedDevices],
    free: Mapping[tuple[str, str], list[str]],
) -> Grants:
    stranger = parse_foreign_pod(pod)
    if stranger is None:
        return ()
    asked = {(stranger.node, name): count for name, count in stranger.counted.items()}
    if any(len(free.get(key, ())) < count for key, count in asked.items()):
        return ()
    found: list[tuple[str, str]] = []
    for key, count in sorted(asked.items()):
        found += [(name, given[key].slot) for name in free[key][:count]]
        del free[key][:count]
    return tuple(found)


def _key(pod: Mapping[str, Any]) -> tuple[str, str]:
    return str(pod["metadata"].get("namespace") or ""), str(pod["metadata"]["name"])
