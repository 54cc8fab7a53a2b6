"""Exact cores, on a node whose CPUs are devices: the lab's stand-in for dra-driver-cpu publishes and pins
them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from providers.base import Limit
from providers.kubernetes.capabilities import capabilities
from providers.kubernetes.objects.claim import MOST_DEVICES
from providers.kubernetes.provider import KubernetesProvider
from schemas.problems.errors.kernel import KernelRefused
from tests.lab.kubernetes import cpus
from tests.lab.kubernetes.api import CORE
from tests.lab.kubernetes.gpus import gpu_uuid
from tests.lab.kubernetes.lab import Kubernetes
from tests.providers.kubernetes.conftest import Cluster
from tests.providers.kubernetes.specs import script
from tests.waiting import until

pytestmark = [
    pytest.mark.xdist_group("kubernetes"),
    pytest.mark.slow,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs"),
]
LOOKS = """
while :; do
    while read -r name value; do
        [ "$name" = Cpus_allowed_list: ] && echo "$NVIDIA_VISIBLE_DEVICES $value"
    done </proc/self/status
    sleep 0.3
done
"""
COUNT = os.cpu_count() or 1
ALL = f"0-{COUNT - 1}"
WITHOUT_1 = "0" if COUNT == 2 else f"0,2-{COUNT - 1}" if COUNT > 3 else "0,2"
FIRST, SECOND = "a-main1-0-g1", "b-main1-0-g1"


@pytest.fixture
def cores(kubernetes: Kubernetes, kube_namespace: str) -> Iterator[Cluster]:
    """The node whose CPUs are devices, without another."""
    kubernetes.cores()
    found = Cluster(kubernetes, kube_namespace, ("n2",))
    yield found
    for provider in found.opened:
        provider.close()


def sees(cluster: Cluster, name: str, wanted: str) -> None:
    """A kernel that runs `LOOKS` says that it has these CPUs now."""

    def last() -> str:
        lines = cluster.log(name).splitlines() if begun(cluster, name) else []
        return lines[-1] if lines else ""

    until(lambda: last() == wanted, lambda: f"{name} sees {wanted!r}: {last()!r}", pause=0.1)


def begun(cluster: Cluster, name: str) -> bool:
    return bool(cluster.get("pods", name)["status"].get("phase") != "Pending")


def test_a_kernel_has_exactly_its_cpu_and_others_keep_off_it(cores: Cluster) -> None:
    provider = cores.open()
    provider.create(script(LOOKS, SECOND, node="n2", cpu_milli=100))
    sees(cores, SECOND, f" {ALL}")

    gpu = gpu_uuid("n2", 3)
    provider.create(script(LOOKS, FIRST, node="n2", cpus=(1,), devices=(gpu,)))
    sees(cores, FIRST, f"{gpu} 1")
    sees(cores, SECOND, f" {WITHOUT_1}")
    assert [given(claim) for claim in cores.claims(FIRST)] == [["gpu-3", "cpudev001"]]

    third = "c-main1-0-g1"
    with pytest.raises(KernelRefused, match=rf"n2/cpudev001 is given to claim {cores.namespace}/{FIRST}-"):
        provider.create(script(LOOKS, third, node="n2", cpus=(1,)))
    assert cores.get("pods", third) is None and not cores.claims(third)
    provider.create(script(LOOKS, third, node="n2", cpu_milli=100))
    sees(cores, third, f" {WITHOUT_1}")

    provider.remove(FIRST)
    sees(cores, SECOND, f" {ALL}")
    sees(cores, third, f" {ALL}")
    provider.create(script(LOOKS, FIRST, node="n2", cpus=(0,)))
    sees(cores, FIRST, " 0")
    for name in (FIRST, SECOND, third):
        provider.remove(name)
    cores.is_empty()


def given(claim: dict[str, Any]) -> list[str]:
    """The devices of a claim, by their names."""
    return [each["device"] for each in claim["status"]["allocation"]["devices"]["results"]]


def test_cores_are_kept_over_a_restart_of_everything_on_the_node(cores: Cluster) -> None:
    node, provider = cores.lab.cores(), cores.open()
    provider.create(script(LOOKS, FIRST, node="n2", cpus=(1,)))
    provider.create(script(LOOKS, SECOND, node="n2", cpu_milli=100))
    sees(cores, FIRST, " 1")
    sees(cores, SECOND, f" {WITHOUT_1}")
    for daemon in (node.containerd, node.pinner, node.kubelet):
        node.restart(daemon)
    third = "c-main1-0-g1"
    provider.create(script(LOOKS, third, node="n2", cpu_milli=100))
    for name, wanted in ((third, WITHOUT_1), (FIRST, "1"), (SECOND, WITHOUT_1)):
        sees(cores, name, f" {wanted}")
    provider.remove(FIRST)
    sees(cores, SECOND, f" {ALL}")


def test_cpus_numa_nodes_and_threads_are_known(cores: Cluster) -> None:
    (simulated,) = cores.lab.kwok(1, cores=True)
    found, failed = cores.open().hardware(frozenset({"n2", simulated}))
    assert not failed
    places = [place["attributes"]["resource.kubernetes.io/numaNode"]["int"] for place in made(COUNT)]
    assert [(numa.id, numa.cpus) for numa in found["n2"].numa_nodes] == [
        (number, tuple(cpu for cpu in range(COUNT) if places[cpu] == number)) for number in (0, 1)
    ]
    assert found["n2"].siblings == () and not any("threads" in each for each in found["n2"].unknown)
    large = found[simulated]
    assert [numa.cpus for numa in large.numa_nodes] == [
        (*range(24), *range(48, 72)), (*range(24, 48), *range(72, 96)),
    ]  # fmt: skip
    assert large.siblings == tuple((core, core + 48) for core in range(48))
    assert {gpu.numa_node for gpu in large.gpus} == {0, 1}


def made(count: int) -> list[dict[str, Any]]:
    return cpus.devices(range(count))


def test_cores_are_exact_where_all_nodes_publish_them(cores: Cluster) -> None:
    cores.lab.pair()
    provider = cores.open()
    exact = provider.capabilities()
    assert Limit.CPUSET in exact.limits and Limit.CPUSET not in exact.limits_missing
    assert exact.missing_on == {Limit.MEMSET: {"n2"}}
    seen = provider.observer.last_seen()
    mixed = capabilities(seen, ("n0", "n2"))
    assert Limit.CPUSET not in mixed.limits
    assert mixed.limits_missing[Limit.CPUSET] == (
        "on n0 the kubelet chooses which cores a pod has: no driver (dra.cpu) publishes its CPUs"
    )
    assert mixed.missing_on == {Limit.MEMSET: {"n2"}, Limit.CPUSET: {"n0"}}
    assert Limit.CPUSET not in capabilities(seen, ("unknown",)).limits


def test_many_devices_are_several_claims(cores: Cluster) -> None:
    (simulated,) = cores.lab.kwok(1, cores=True)
    cluster = Cluster(cores.lab, cores.namespace, (simulated,), cores.opened)
    provider: KubernetesProvider = cluster.open()
    gpus = tuple(gpu_uuid(simulated, number) for number in range(8))
    provider.create(script(LOOKS, FIRST, node=simulated, cpus=tuple(range(4, 84)), devices=gpus))
    names = [given(claim) for claim in cluster.claims(FIRST)]
    assert [len(each) for each in names] == [MOST_DEVICES, MOST_DEVICES, 24]
    assert [name for each in names for name in each] == [
        *(f"gpu-{number}" for number in range(8)), *(f"cpudev{number:03}" for number in range(4, 84)),
    ]  # fmt: skip
    container = cluster.get("pods", FIRST)["spec"]["containers"][0]
    assert len(container["resources"]["claims"]) == 3 and container["resources"]["limits"]["cpu"] == "80"
    with pytest.raises(KernelRefused, match="cpudev083 is given to claim"):
        provider.create(script(LOOKS, SECOND, node=simulated, cpus=(83,)))
    cluster.lab.api.delete(f"{cluster.path('pods', FIRST)}?gracePeriodSeconds=0")
    provider.remove(FIRST)
    assert not cluster.claims(FIRST), "they are free, though somebody has taken the pod away"
    provider.create(script(LOOKS, SECOND, node=simulated, cpus=(83,)))
    provider.remove(SECOND)
    cluster.is_empty()


def test_a_cpu_that_nobody_publishes_is_refused(cores: Cluster) -> None:
    with pytest.raises(KernelRefused, match=rf"no DRA driver publishes CPU {COUNT} of node n2"):
        cores.open().create(script(LOOKS, FIRST, node="n2", cpus=(COUNT,)))
    assert not cores.left()
    assert cores.lab.api.get(f"{CORE}/nodes/n2")["status"]["capacity"]["cpu"] == str(COUNT)
