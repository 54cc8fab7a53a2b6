"""Kernels that have parts of one GPU, on a real cluster: one claim, which is all of theirs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from providers.base import KernelSpec
from providers.gpu.gpu_share import GpuShare
from providers.kubernetes.objects.claim import FINALIZER
from providers.kubernetes.objects.labels import SHARING
from providers.kubernetes.provider import KubernetesProvider
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable
from tests.lab.kubernetes.gpus import gpu_uuid
from tests.providers.kubernetes.conftest import Cluster, once, seen
from tests.providers.kubernetes.specs import LABELS, MIB, SLEEP, kernel
from tests.providers.kubernetes.test_requests import Cut, kernels_of
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")
SIM = "k0000"
"""The simulated node's name."""
LOOK = f"""
echo "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT $NVIDIA_VISIBLE_DEVICES"
echo "pipe $CUDA_MPS_PIPE_DIRECTORY"; cat /tmp/nvidia-mps/started
touch /dev/shm/$(hostname); until [ "$(ls /dev/shm | wc -l)" = 2 ]; do sleep 0.2; done; echo done; {SLEEP}
"""


def part(
    name: str,
    milli: int,
    *,
    node: str = SIM,
    gpu: int = 0,
    means: str = "mps",
    most: int = 500,
    **fields: Any,
) -> KernelSpec:
    """A kernel as the plan makes one that asks for a part of a GPU."""
    uuid = gpu_uuid(node, gpu)
    limits = {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(milli // 10),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={81559 * milli // 1000}M",
    }
    share = GpuShare("mps", {uuid: milli}, {uuid: 81559 * MIB * milli // 1000}, most)
    given: dict[str, Any] = {"share": share, "env": limits} if means == "mps" else {}
    return kernel(
        f"{name}-main1-0-g1", *fields.pop("command", ()), node=node, devices=(uuid,), parts=(uuid,),
        labels=replace(LABELS, node=node, resource=f"Session/p/{name}"), **{**given, **fields},
    )  # fmt: skip


def shared(cluster: Cluster) -> list[Any]:
    """Claims of bai's that are made to be shared."""
    query = "?labelSelector=app.kubernetes.io/managed-by=bai"
    found = cluster.lab.api.get(f"{cluster.path('resourceclaims')}{query}")["items"]
    return [each for each in found if SHARING in each["metadata"]["labels"]]


def users(claim: Any) -> set[str]:
    return {each["name"].partition("-")[0] for each in claim["status"].get("reservedFor") or ()}


@pytest.fixture
def provider(cluster: Cluster) -> KubernetesProvider:
    assert cluster.simulated() == SIM
    return cluster.open(mps=True)


@pytest.mark.slow
def test_each_reads_its_own_limits_and_the_claims_inside(pair: Cluster) -> None:
    provider = pair.open(mps=True)
    command = ("sh", "-c", LOOK)
    provider.create(part("one", 300, node="n0", command=command, shm=8 * MIB))
    provider.create(part("two", 500, node="n0", command=command, uid=1_900_004_243))
    for name in ("one-main1-0-g1", "two-main1-0-g1"):
        once(provider, "running", name)
    until(lambda: "done" in pair.log("one-main1-0-g1") and "done" in pair.log("two-main1-0-g1"), "both began")
    uuid = gpu_uuid("n0", 0)
    for name, percent, mebibytes in (("one", 30, 24467), ("two", 50, 40779)):
        assert pair.log(f"{name}-main1-0-g1").splitlines() == [
            f"{percent} 0={mebibytes}M {uuid}",
            "pipe /tmp/nvidia-mps",
            "nvidia-cuda-mps-control -d -M",
            "set_default_active_thread_percentage 50",
            f"set_default_device_pinned_mem_limit {uuid} 40779M",
            "done",
        ]
    (claim,) = shared(pair)
    assert users(claim) == {"one", "two"} and claim["metadata"]["labels"][SHARING] == "mps-500"
    use = pair.use(provider, "n0")
    assert uuid not in use.devices, "what bai's kernels share is no use of others"
    provider.remove("one-main1-0-g1")
    once(provider, "running", "two-main1-0-g1")
    assert [each["metadata"]["uid"] for each in shared(pair)] == [claim["metadata"]["uid"]]
    provider.remove("two-main1-0-g1")
    assert not shared(pair), "it goes with the last"


@pytest.mark.slow
def test_without_enforcement_they_take_turns_by_one_claim_without_a_configuration(pair: Cluster) -> None:
    provider = pair.open()
    for name in ("one", "two"):
        provider.create(part(name, 500, node="n1", means="none"))
    for name in ("one", "two"):
        once(provider, "running", f"{name}-main1-0-g1")
    (claim,) = shared(pair)
    assert users(claim) == {"one", "two"} and "config" not in claim["status"]["allocation"]["devices"]
    assert claim["metadata"]["labels"][SHARING] == "none-1000"


@pytest.fixture
def without_mps(pair: Cluster) -> Iterator[Cluster]:
    """The driver of n1 has its feature gate off."""
    node = pair.lab.nodes["n1"]
    given = node.driver.argv
    node.driver.argv = [word for word in given if word not in ("-feature-gates", "MPSSupport=true")]
    assert node.driver.argv != given
    node.restart(node.driver)
    yield pair
    node.driver.argv = given
    node.restart(node.driver)


@pytest.mark.slow
def test_a_driver_without_mps_is_told_in_its_own_words(without_mps: Cluster) -> None:
    provider = without_mps.open(mps=True)
    provider.create(part("one", 500, node="n1"))

    def reason() -> str:
        found = seen(provider, "one-main1-0-g1")
        return found.reason if found is not None else ""

    until(lambda: 'the "MPSSupport" feature gate is not enabled' in reason(), reason, pause=0.2)
    provider.remove("one-main1-0-g1")
    assert not shared(without_mps)


def test_those_that_begin_together_share_one_claim(cluster: Cluster, provider: KubernetesProvider) -> None:
    names = [f"s{number}" for number in range(8)]
    failed: list[ProviderError] = []

    def make(name: str) -> None:
        try:
            provider.create(part(name, 100))
        except ProviderError as error:
            failed.append(error)

    threads = [threading.Thread(target=make, args=(name,)) for name in names]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
    (claim,) = shared(cluster)
    assert users(claim) == set(names)
    assert len(claim["metadata"]["ownerReferences"]) == len(names)


def test_a_part_is_never_of_a_gpu_that_is_given_whole_nor_the_other_way_round(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    provider.create(kernel("whole-main1-0-g1", node=SIM, devices=(gpu_uuid(SIM, 0),)))
    with pytest.raises(KernelRefused, match="is given to claim"):
        provider.create(part("one", 500))
    provider.create(part("one", 500, gpu=1))
    with pytest.raises(KernelRefused, match="is given to claim"):
        provider.create(kernel("again-main1-0-g1", node=SIM, devices=(gpu_uuid(SIM, 1),)))
    (claim,) = shared(cluster)
    assert users(claim) == {"one"}
    assert kernels_of(provider) == ["one-main1-0-g1", "whole-main1-0-g1"]


def test_other_limits_wait_until_those_who_share_have_ended(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    provider.create(part("one", 300))
    with pytest.raises(KernelRefused, match="is given to claim"):
        provider.create(part("two", 300, most=1000))
    provider.remove("one-main1-0-g1")
    provider.create(part("two", 300, most=1000))
    (claim,) = shared(cluster)
    assert claim["metadata"]["labels"][SHARING] == "mps-1000"
    config = claim["status"]["allocation"]["devices"]["config"][-1]["opaque"]["parameters"]
    assert config["sharing"] == {"strategy": "MPS", "mpsConfig": {"multiUser": True}}


@pytest.mark.parametrize("late", [False, True])
def test_a_creation_cut_off_anywhere_is_found_by_the_next_one(
    cluster: Cluster, provider: KubernetesProvider, late: bool
) -> None:
    for first in (True, False):
        for last in range(1, 6):
            if not first:
                provider.create(part("zero", 100))
            cut = Cut(cluster.client(), last, late=late)
            try:
                cluster.open(cut, mps=True).create(part("one", 300))
            except ProviderUnavailable:
                pass
            else:
                assert last == 5 and first, cut.sent
            again = cluster.open(mps=True)
            again.observe()
            # Another one comes first: it finds the name that the first one's pod has.
            again.create(part("two", 300))
            again.create(part("one", 300))
            (claim,) = shared(cluster)
            names = {"one", "two"} | (set() if first else {"zero"})
            assert users(claim) == names, (last, first)
            assert cluster.get("pods", "one-main1-0-g1")["spec"]["nodeName"] == SIM
            for name in sorted(names):
                again.remove(f"{name}-main1-0-g1")
            assert not shared(cluster)
            cluster.is_empty()


def test_a_claim_whose_device_was_taken_back_is_made_anew(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    """The cluster's controller takes its finalizer, too: it would not take the device back a second time, and
    whoever deletes the claim would free it under those who use it."""
    provider.create(part("one", 300))
    with pytest.raises(ProviderUnavailable):
        cluster.open(Cut(cluster.client(), 1, late=True), mps=True).create(part("two", 300))
    (claim,) = shared(cluster)
    path = cluster.path("resourceclaims", claim["metadata"]["name"])
    cluster.lab.api.replace(f"{path}/status", {**claim, "status": {}})
    cluster.lab.api.patch(path, {"metadata": {"finalizers": None}})
    cluster.open(mps=True).create(part("two", 300))
    (after,) = shared(cluster)
    assert after["metadata"]["name"] == claim["metadata"]["name"], "its pod can have no other"
    # The controller adds whoever runs and names it.
    assert after["metadata"]["uid"] != claim["metadata"]["uid"] and {"two"} <= users(after) <= {"one", "two"}
    assert after["metadata"]["finalizers"] == [FINALIZER]


def test_a_claim_that_is_deleted_while_it_is_joined_is_made_anew(
    cluster: Cluster, provider: KubernetesProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is when its last user goes: the API server takes nobody into what is being deleted."""
    provider.create(part("one", 300))
    (claim,) = shared(cluster)
    path = cluster.path("resourceclaims", claim["metadata"]["name"])
    leaver = threading.Thread(target=provider.remove, args=("one-main1-0-g1",))
    client = cluster.client()
    patch = client.patch

    def patch_what_is_deleted(to: str, *rest: Any, **kind: Any) -> Any:
        if to != path or leaver.ident:
            return patch(to, *rest, **kind)
        cluster.lab.api.delete(path)
        answer = patch(to, *rest, **kind)
        leaver.start()
        return answer

    monkeypatch.setattr(client, "patch", patch_what_is_deleted)
    cluster.open(client, mps=True).create(part("two", 300))
    leaver.join()
    (after,) = shared(cluster)
    assert after["metadata"]["uid"] != claim["metadata"]["uid"] and users(after) == {"two"}


def test_who_comes_while_the_last_one_goes_has_a_claim(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    for number in range(6):
        old, new = f"old{number}", f"new{number}"
        provider.create(part(old, 300))
        ready = threading.Barrier(2)

        def leave(old: str = old, ready: threading.Barrier = ready) -> None:
            ready.wait()
            provider.remove(f"{old}-main1-0-g1")

        leaver = threading.Thread(target=leave)
        leaver.start()
        ready.wait()
        provider.create(part(new, 300))
        leaver.join()

        def left_alone(new: str = new) -> bool:
            found = [each for each in shared(cluster) if each["status"].get("allocation")]
            return len(found) == 1 and users(found[0]) == {new}

        until(left_alone, lambda: f"{new} alone has it: {shared(cluster)}")  # noqa: B023
        provider.remove(f"{new}-main1-0-g1")
        assert not shared(cluster)
