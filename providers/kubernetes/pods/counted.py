"""The devices of a kernel that its node counts: no more than there are, by all that pods there ask for. Which
ones it gets, the kubelet chooses."""

from __future__ import annotations

from providers.base import KernelSpec
from providers.kubernetes.api.client import Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.objects.counted import counted_amounts, counted_devices
from providers.kubernetes.objects.names import kernel_container
from providers.kubernetes.observe.nodes import ClusterNode
from providers.kubernetes.observe.observer import Observer
from providers.kubernetes.observe.plugins.offers import devices_given
from schemas.problems.errors.kernel import KernelRefused


def require_counted(observer: Observer, spec: KernelSpec, pod: Object, node: ClusterNode) -> None:
    """Before the pod is bound to the node: a kubelet turns one that finds too few away for good. Raises
    KernelRefused, ApiRefusal, OSError."""
    wanted = dict(counted_devices(spec.devices, node.name))
    has = counted_amounts((kernel_container(pod["spec"]["containers"]).get("resources") or {}).get("limits"))
    if has != wanted:
        why = f"its pod was made for {_words(has)}, and its devices are {_words(wanted)}"
        raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint="the next attempt makes another pod")
    if not wanted:
        return
    given = {each.resource: each for each in devices_given(node, observer.last_devices().of(node.name))}
    observer.counts.follow()
    for resource, count in wanted.items():
        if resource not in given:
            why = f"node {node.name} has no {resource} that a device plugin counts, or gives whole"
            raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint=_hint(node.name))
        most = given[resource].allocatable
        if observer.counts.asked(node.name, resource) + count > most:
            observer.counts.look_anew()  # A pod may have ended a moment ago.
        others = observer.counts.asked(node.name, resource)
        if others + count > most:
            why = (
                f"{count} {resource} on node {node.name}: of {most} that are allocatable, pods that are "
                f"there ask for {others}"
            )
            raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint=_hint(node.name))


def _words(amounts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(amounts.items())) or "no counted devices"


def _hint(node: str) -> str:
    return (
        f"`kubectl describe node {node}` shows what is allocatable, and whose it is; the next plan counts it"
    )
