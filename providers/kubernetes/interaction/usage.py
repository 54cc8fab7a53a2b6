"""What kernels use, as the kubelets of their nodes measure it (`stats/summary`), asked by way of the API
server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from providers.abilities import Usage
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.errors import ApiRefusal
from providers.kubernetes.objects.names import kernel_container
from providers.kubernetes.objects.timestamp import parse_time
from schemas.problems.errors.base import BaiError

AT_ONCE = 16
"""Nodes that are asked side by side."""

Kernels = Mapping[str, str]
"""A pod's uid → its kernel."""


def measure_all(client: ApiClient, nodes: Mapping[str, Kernels]) -> Iterator[Usage]:
    """Every kernel's use now; nodes that cannot be asked, or may not be, are left out."""
    wanted = [(node, kernels) for node, kernels in nodes.items() if kernels]
    if not wanted:
        return
    with ThreadPoolExecutor(min(AT_ONCE, len(wanted)), "usage") as pool:
        for found in pool.map(lambda each: _measure_node(client, *each), wanted):
            yield from found


def _measure_node(client: ApiClient, node: str, kernels: Kernels) -> list[Usage]:
    try:
        summary = client.get(f"/api/v1/nodes/{quote(node, safe='')}/proxy/stats/summary")
    except (ApiRefusal, OSError, BaiError, ValueError):
        return []
    return list(parse_summary(summary, kernels))


def parse_summary(summary: Mapping[str, Any], kernels: Kernels) -> Iterator[Usage]:
    """Of these pods, in the kubelet's order. Pure."""
    for pod in _mappings(summary.get("pods")):
        kernel = kernels.get(str(_mapping(pod.get("podRef")).get("uid")))
        container = kernel_container(_mappings(pod.get("containers")))
        if kernel is not None and container:
            yield _parse_container(kernel, container, pod)


def _parse_container(kernel: str, container: Mapping[str, Any], pod: Mapping[str, Any]) -> Usage:
    cpu, memory = _mapping(container.get("cpu")), _mapping(container.get("memory"))
    nanoseconds, used = _count(cpu.get("usageCoreNanoSeconds")), _count(memory.get("workingSetBytes"))
    available = _count(memory.get("availableBytes"))
    return Usage(
        kernel=kernel,
        at=parse_time(cpu.get("time")) or parse_time(memory.get("time")) or datetime.now(UTC),
        cpu_seconds=None if nanoseconds is None else nanoseconds / 1e9,
        memory=used,
        # The kubelet says what is left of a limit; 0 or nothing where there is none.
        memory_limit=used + available if used is not None and available else None,
        network_in=_sum_interfaces(pod, "rxBytes"),
        network_out=_sum_interfaces(pod, "txBytes"),
        pids=_count(_mapping(pod.get("process_stats")).get("process_count")),
    )


def _sum_interfaces(pod: Mapping[str, Any], name: str) -> int | None:
    """None where the kernel has its node's network, of which the kubelet says nothing."""
    interfaces = _mappings(_mapping(pod.get("network")).get("interfaces"))
    counts = [_count(each.get(name)) for each in interfaces if each.get("name") != "lo"]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


def _mappings(found: Any) -> list[Mapping[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _count(found: Any) -> int | None:
    return found if isinstance(found, int) and found >= 0 else None
