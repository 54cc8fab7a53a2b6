"""What a cluster holds pods to, and what it leaves to others."""

from __future__ import annotations

from collections.abc import Sequence

from providers.base import Capabilities, Limit
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.objects.device import CPU_DRIVER
from providers.kubernetes.observe.observer import ClusterViews, double_allocations

IN_PLACE = frozenset({"labels"})
_MISSING = {
    Limit.MEMSET: "the kubelet chooses the NUMA nodes of a pod's memory",
    Limit.PIDS: "a kubelet has one limit for all of its pods (podPidsLimit)",
    Limit.FRACTION: "pods are given whole GPUs and MIG devices",
}
_NAMED = 3


def capabilities(views: ClusterViews, wanted: Sequence[str]) -> Capabilities:
    """`wanted`: the nodes of the repository; empty: all. Pure."""
    nodes = views.known_nodes
    names = sorted(nodes.keys() & set(wanted)) if wanted else sorted(nodes)
    open_nodes = [name for name in names if not nodes[name].fenced]
    cautions = [
        f"device {device} is given to several claims: {', '.join(claims)}"
        for device, claims in double_allocations(views).items()
    ]
    if open_nodes:
        cautions.append(
            f"other schedulers may use the same nodes ({_shown(open_nodes)}): what they take between a plan "
            "and its apply is refused then; the taint bai.dev/node keeps them away"
        )
    cautions += views.limits.cautions
    if views.asks.why_not:
        cautions.append(f"no nodes are asked for: {views.asks.why_not}")
    cores = _numa_nodes(views)
    without = [name for name in names if name not in cores]
    several = frozenset(name for name in names if len(cores.get(name, ())) > 1)
    missing = dict(_MISSING)
    if without or not names:
        missing[Limit.CPUSET] = _no_cores(without)
    return Capabilities(
        NAME,
        frozenset(Limit) - missing.keys(),
        missing,
        IN_PLACE,
        timeouts=True,
        shared_root=frozenset(names),
        missing_on={Limit.MEMSET: several, **({Limit.CPUSET: frozenset(without)} if without else {})},
        cautions=tuple(cautions),
    )


def _numa_nodes(views: ClusterViews) -> dict[str, set[int | None]]:
    """Node whose CPUs are published → its NUMA nodes, as far as that tells."""
    found: dict[str, set[int | None]] = {}
    for device in views.devices.all:
        if device.cpu is not None:
            found.setdefault(device.node, set()).add(device.numa_node)
    return found


def _no_cores(nodes: Sequence[str]) -> str:
    where = f"on {_shown(nodes)} " if nodes else ""
    published = f"no driver ({CPU_DRIVER}) publishes {'its' if len(nodes) == 1 else 'their'} CPUs"
    return f"{where}the kubelet chooses which cores a pod has: {published}"


def _shown(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:_NAMED]) + (" ..." if len(nodes) > _NAMED else "")
