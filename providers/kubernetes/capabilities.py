"""What a cluster holds pods to, and what it leaves to others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from providers.base import Capabilities, Limit
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.objects.device import CPU_DRIVER, Device
from providers.kubernetes.objects.sharing import NVIDIA
from providers.kubernetes.observe.devices import DeviceIndex
from providers.kubernetes.observe.hardware import gpu_devices
from providers.kubernetes.observe.observer import ClusterViews, double_allocations
from providers.kubernetes.observe.plugins.offers import devices_given
from schemas.kinds.parts.kubernetes import Kubernetes

IN_PLACE = frozenset({"labels"})
_MISSING = {
    Limit.MEMSET: "the kubelet chooses the NUMA nodes of a pod's memory",
    Limit.PIDS: "a kubelet has one limit for all of its pods (podPidsLimit)",
    Limit.FRACTION: "its group demands no enforcement",
}
_WEAKER = {
    Limit.FRACTION: "its part of a GPU is kept by its own variables and by an MPS daemon of NVIDIA's DRA "
    "driver, which bai has not tried: a process without the variables may have as much as "
    "`fractional.largest` of its group"
}
_NAMED = 3
UNDIVIDED = "a device plugin counts its GPUs, whole ones, and no DRA driver publishes them"


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
    counted = frozenset(name for name in names if devices_given(nodes[name], views.devices.of(name)))
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
        weaker={**_WEAKER, **({Limit.DEVICES: _kubelets_choice(sorted(counted))} if counted else {})},
        weaker_on={Limit.DEVICES: counted},
        undivided=dict.fromkeys(sorted(counted), UNDIVIDED),
    )


def _kubelets_choice(nodes: Sequence[str]) -> str:
    return (
        f"which GPUs it has on {_shown(nodes)} is the kubelet's choice, and how many is kept to: a device "
        "plugin counts them, and no DRA driver publishes them"
    )


def fraction_obstacles(
    devices: DeviceIndex, options: Kubernetes, nodes: Iterable[str]
) -> dict[str, dict[str, str]]:
    """See `providers.abilities.ReportsFractions`. Pure."""
    every = {"hami": "pods have only what their DRA driver offers, which is MPS at most", "mig": ""}
    return {node: {**every, "mps": _no_mps(devices.of(node), options)} for node in nodes}


def _no_mps(here: Sequence[Device], options: Kubernetes) -> str:
    if not options.mps:
        return "`mps` of the cluster's options does not say that its NVIDIA driver has it (MPSSupport)"
    if options.several_namespaces:
        return "a GPU is shared within one namespace, and each project has its own"
    gpus, _ = gpu_devices([each for each in here if each.driver == NVIDIA])
    if not gpus:
        return f"no driver ({NVIDIA}) publishes GPUs of it"
    if all(each.several for each in gpus):
        return "its NVIDIA driver lets several claims have a GPU (ConsumableShares), and refuses MPS then"
    return ""


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
