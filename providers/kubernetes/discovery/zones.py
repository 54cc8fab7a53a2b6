"""NodeResourceTopology objects (`topology.node.k8s.io/v1alpha2`), which nfd-topology-updater writes: memory,
huge pages and distances of NUMA nodes, for nodes whose CPUs drivers publish one by one.

Asked for only when such nodes are looked at anew, in one request; where the cluster has none, or bai may not
see them, what they would tell is unknown. They name no CPUs: without these they are of no use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.errors import ApiRefusal
from providers.kubernetes.objects.amounts import PAGES
from providers.kubernetes.objects.quantity import parse_quantity
from schemas.hardware.completion import UNKNOWN_MEMORY, filled_numa_nodes
from schemas.hardware.model import Hardware, NumaNode, PageSize

PATH = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
_NAME = re.compile(r"node-([0-9]{1,4})")
"""Of a zone, as nfd-topology-updater writes it."""
_FARTHEST = 255
"""The kernel's largest distance."""
_MOST_ZONES = 256


def add_zones(client: ApiClient, hardware: Mapping[str, Hardware]) -> dict[str, Hardware]:
    """The same, with what is told of nodes with several NUMA nodes. Never raises: that is not needed."""
    wanted = [name for name, each in hardware.items() if UNKNOWN_MEMORY in each.unknown]
    found = dict(hardware)
    for name, topology in _read(client, wanted):
        found[name] = with_zones(found[name], topology)
    return found


def _read(client: ApiClient, wanted: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not wanted:
        return
    query = {"fieldSelector": f"metadata.name={wanted[0]}"} if len(wanted) == 1 else {}
    try:
        listed = client.list(PATH, query).items
    except (ApiRefusal, OSError):
        return
    for each in listed:
        about = each.get("metadata") if isinstance(each, dict) else None
        name = about.get("name") if isinstance(about, dict) else None
        if name in wanted:
            yield name, each


def with_zones(hardware: Hardware, topology: Mapping[str, Any]) -> Hardware:
    """What is told counts where it is of just these NUMA nodes, with as many CPUs in each. Pure."""
    try:
        told = _parse(topology)
    except (TypeError, ValueError, AttributeError, KeyError):
        return hardware
    nodes = {each.id: each for each in hardware.numa_nodes}
    if told.keys() != nodes.keys() or any(
        count != len(nodes[number].cpus) for number, (_, count) in told.items()
    ):
        return hardware
    filled = filled_numa_nodes(hardware.numa_nodes, {number: node for number, (node, _) in told.items()})
    left = tuple(each for each in hardware.unknown if each != UNKNOWN_MEMORY)
    return hardware.model_copy(update={"numa_nodes": filled, "unknown": left})


def _parse(topology: Mapping[str, Any]) -> dict[int, tuple[NumaNode, int]]:
    """Number → NUMA node without its CPUs, and how many these are. Raises ValueError and its like."""
    found: dict[int, tuple[NumaNode, int]] = {}
    for zone in (topology.get("zones") or ())[:_MOST_ZONES]:
        name = _NAME.fullmatch(str(zone["name"]))
        if zone.get("type") != "Node" or name is None:
            continue
        capacity = {str(each["name"]): str(each["capacity"]) for each in zone.get("resources") or ()}
        pages: dict[PageSize, int] = {
            size: amount
            for slot, (_, size) in PAGES.items()
            if (amount := parse_quantity(capacity.get(slot, "0")))
        }
        node = NumaNode(
            id=int(name[1]),
            memory=parse_quantity(capacity.get("memory", "0")),
            hugepages=pages,
            distances=dict(_distances(zone.get("costs") or ())),
        )
        found[node.id] = node, parse_quantity(capacity.get("cpu", "0"))
    return found


def _distances(costs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    for each in costs[:_MOST_ZONES]:
        other, value = _NAME.fullmatch(str(each["name"])), each["value"]
        if other is not None and type(value) is int and 0 < value <= _FARTHEST:
            yield int(other[1]), value
