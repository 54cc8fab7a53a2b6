"""Requests that are refused, cut off, or met by those of others, on a real API server. The node is simulated:
nothing of this is for a kubelet to decide."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from typing import Any

import pytest

from providers.base import File, KernelSpec, Network
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.objects.names import PodRef
from providers.kubernetes.pods import end
from providers.kubernetes.provider import KubernetesProvider
from schemas.problems.errors.kernel import KernelNotFound, KernelRefused
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable
from schemas.problems.errors.store import LeaseLost
from tests.lab.docker import IMAGE
from tests.lab.kubernetes.gpus import DRIVER, gpu_uuid
from tests.providers.kubernetes.conftest import Cluster, once
from tests.providers.kubernetes.specs import ID, LABELS, MIB, kernel
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")
SIM = "k0000"
"""The simulated node's name."""


@pytest.fixture
def provider(cluster: Cluster) -> KubernetesProvider:
    assert cluster.simulated() == SIM
    return cluster.open()


def gpu(number: int) -> str:
    return gpu_uuid(SIM, number)


def everything(name: str = ID, **fields: Any) -> KernelSpec:
    """A kernel that needs every kind of object."""
    given = {
        "devices": (gpu(1), gpu(3)), "secret_env": {"A": "b"}, "network": Network("overlay", "bai-p-s"),
        "files": (File("a.xml", "<system/>", "TOPOLOGY"),),
    }  # fmt: skip
    return kernel(name, node=SIM, **{**given, **fields})


MAKING = ("pods", "secrets", "configmaps", "services", "resourceclaims", "status", "binding")
"""What `everything` asks for, in this order."""


class Cut(ApiClient):
    """Its `last`-th request that changes anything is the last one of any kind: it is cut off before it
    leaves, or, `late`, when the answer is on its way."""

    def __init__(self, client: ApiClient, last: int, *, late: bool) -> None:
        super().__init__(client.access)
        self.last, self.late = last, late
        self.sent: list[str] = []

    def _send(self, method: str, path: str, *others: Any, **named: Any) -> Any:
        changes = method in ("POST", "PUT", "PATCH", "DELETE")
        if len(self.sent) >= self.last:
            raise OSError("the process has ended")
        if changes:
            self.sent.append(path.rpartition("/")[2])
        if len(self.sent) >= self.last and not self.late:
            raise OSError("cut off before it left")
        answer = super()._send(method, path, *others, **named)
        if len(self.sent) >= self.last:
            answer.drain_conn()
            raise OSError("cut off while the answer was on its way")
        return answer


def devices_of(cluster: Cluster, name: str = ID) -> set[str]:
    (claim,) = cluster.claims(name)
    return {each["device"] for each in claim["status"]["allocation"]["devices"]["results"]}


def kernels_of(provider: KubernetesProvider) -> list[str]:
    """As its watch has told, which hears of what others do a moment later."""
    found = provider.observe()
    assert found.complete
    return [each.id for each in found.kernels]


@pytest.mark.parametrize("late", [False, True])
def test_a_creation_cut_off_anywhere_is_found_by_the_next_one(
    cluster: Cluster, provider: KubernetesProvider, late: bool
) -> None:
    for last in range(1, len(MAKING) + 1):
        cut = Cut(cluster.client(), last, late=late)
        with pytest.raises(ProviderUnavailable):
            cluster.open(cut).create(everything())
        assert tuple(cut.sent) == MAKING[:last]
        wanted = [ID] if late or last > 1 else []
        until(lambda: kernels_of(provider) == wanted, lambda: f"{wanted}: {kernels_of(provider)}")  # noqa: B023
        before = cluster.get("pods", ID)
        provider.create(everything())
        pod = cluster.get("pods", ID)
        assert before is None or pod["metadata"]["uid"] == before["metadata"]["uid"], "it goes on there"
        assert pod["spec"]["nodeName"] == SIM and devices_of(cluster) == {"gpu-1", "gpu-3"}
        kinds = sorted(each.partition("/")[0] for each in cluster.left())
        assert kinds == ["configmaps", "pods", "resourceclaims", "secrets", "services"], last
        provider.remove(ID)
        assert not cluster.claims()
        cluster.is_empty()


def test_what_a_cut_off_creation_left_can_be_removed(cluster: Cluster, provider: KubernetesProvider) -> None:
    for last in range(1, len(MAKING) + 1):
        with pytest.raises(ProviderUnavailable):
            cluster.open(Cut(cluster.client(), last, late=True)).create(everything())
        cluster.open().remove(ID)
        assert cluster.get("pods", ID) is None and not cluster.claims()
        cluster.is_empty()


def test_a_pod_that_was_bound_meanwhile_is_not_taken_away_without_its_end(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    with pytest.raises(ProviderUnavailable):
        cluster.open(Cut(cluster.client(), len(MAKING), late=False)).create(everything())
    unbound = cluster.get("pods", ID)
    provider.create(everything())
    with pytest.raises(ProviderUnavailable):
        end.remove_pod(cluster.client(), PodRef(cluster.namespace, ID), unbound)
    assert cluster.get("pods", ID)["metadata"].get("deletionTimestamp") is None


def test_two_creations_at_once_make_one_kernel(cluster: Cluster, provider: KubernetesProvider) -> None:
    for number in range(4):
        name = f"s{number}-main1-0-g1"
        makers = [cluster.open() for _ in range(3)]
        ready = threading.Barrier(len(makers))
        failed: list[ProviderError] = []

        def make(one: KubernetesProvider, name: str = name, ready: threading.Barrier = ready) -> None:
            ready.wait()
            try:
                one.create(everything(name))
            except ProviderError as error:
                failed.append(error)  # noqa: B023

        threads = [threading.Thread(target=make, args=(one,)) for one in makers]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert failed == []
        assert cluster.get("pods", name)["spec"]["nodeName"] == SIM
        assert devices_of(cluster, name) == {"gpu-1", "gpu-3"}
        provider.remove(name)
    cluster.is_empty()


def test_a_fence_that_says_no_leaves_nothing_and_is_asked_before_anything_runs(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    bound: list[object] = []

    def look_and_lose() -> None:
        bound.append(cluster.get("pods", ID)["spec"].get("nodeName"))
        raise LeaseLost(cluster="here", token=1)

    with pytest.raises(LeaseLost):
        provider.create(everything(), look_and_lose)
    assert bound == [None] and cluster.get("pods", ID) is None
    assert not cluster.claims()
    cluster.is_empty()


def test_devices_of_others_are_seen_and_never_taken(cluster: Cluster, provider: KubernetesProvider) -> None:
    one, other = gpu(0), gpu(6)
    spec = kernel(node=SIM, devices=(one,))
    with cluster.lab.namespace() as theirs:
        take(cluster, theirs, "theirs", "gpu-0")
        foreign = cluster.use(provider, SIM)
        assert one in foreign.devices and f"claim {theirs}/theirs" in foreign.owner
        with pytest.raises(KernelRefused, match=f"given to claim {theirs}/theirs"):
            provider.create(spec)
        assert cluster.get("pods", ID) is None and not cluster.claims()
        made = kernel("t-main1-0-g1", node=SIM, devices=(other,))
        provider.create(made)
        once(provider, "running", made.id)
        assert other not in cluster.use(provider, SIM).devices
        take(cluster, theirs, "twice", "gpu-6")
        again = cluster.open()
        (caution,) = [said for said in again.capabilities().cautions if "several claims" in said]
        assert other in caution and f"{theirs}/twice" in caution and cluster.namespace in caution
        assert other in cluster.use(again, SIM).devices
    provider.create(spec)
    once(provider, "running")
    with pytest.raises(KernelRefused, match="no DRA driver publishes"):
        provider.create(kernel("u-main1-0-g1", node=SIM, devices=("GPU-nowhere",)))
    assert cluster.get("pods", "u-main1-0-g1") is None


def test_a_gpu_that_others_have_shares_of_is_not_given(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    """As with ConsumableShares of NVIDIA's driver: several claims of any namespace have one GPU."""
    with cluster.lab.namespace() as theirs:
        for name in ("one", "two"):
            take(cluster, theirs, name, "gpu-0", shareID=str(uuid.uuid4()))
        assert gpu(0) in cluster.use(provider, SIM).devices
        with pytest.raises(KernelRefused, match=f"given to claim {theirs}/one"):
            provider.create(kernel(node=SIM, devices=(gpu(0),)))
        assert not [said for said in cluster.open().capabilities().cautions if "several claims" in said]


def take(cluster: Cluster, namespace: str, name: str, device: str, **more: str) -> None:
    """A claim of somebody else gets a device of the node, as a scheduler gives it."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    request = {"name": "r", "exactly": {"deviceClassName": DRIVER}}
    made = cluster.lab.api.create(
        path, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    )
    result = {"request": "r", "driver": DRIVER, "pool": SIM, "device": device, **more}
    status = {"allocation": {"devices": {"results": [result]}}}
    cluster.lab.api.replace(f"{path}/{name}/status", {**made, "status": status})


def test_pods_of_others_are_use_and_are_never_believed(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    """Whoever may make pods somewhere can copy a kernel's labels."""
    provider.create(kernel(node=SIM, memory=32 * MIB))
    real = cluster.get("pods", ID)
    about = {name: real["metadata"][name] for name in ("labels", "annotations")}
    asked = {"cpu": "250m", "memory": "64Mi"}
    body = {
        "metadata": {"name": ID, **about},
        "spec": {
            "nodeName": SIM, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": IMAGE, "command": ["sleep", "1000"],
                            "resources": {"requests": asked}}],
        },
    }  # fmt: skip
    before = cluster.use(provider, SIM)
    with cluster.lab.namespace() as theirs:
        path = f"/api/v1/namespaces/{theirs}/pods"
        cluster.lab.api.create(path, body)
        cluster.lab.api.create(path, {**body, "metadata": {**body["metadata"], "name": "t-main1-0-g1"}})
        found = provider.observe()
        assert [each.id for each in found.kernels] == [ID] and found.complete
        use = cluster.use(provider, SIM)
        assert (use.cpu_milli, use.memory) == (before.cpu_milli + 500, before.memory + 128 * MIB)
        assert f"{theirs}/{ID}" in use.owner
        with pytest.raises(KernelNotFound):
            provider.stop("t-main1-0-g1", grace=0)
        provider.remove("t-main1-0-g1")
        provider.remove(ID)
        assert len(cluster.lab.api.get(path)["items"]) == 2
    until(lambda: cluster.use(provider, SIM) == before, pause=0.1)
    moved = replace(LABELS, node="n1")
    provider.create(kernel(node=SIM))
    provider.update(ID, kernel(labels=moved))
    seen_now = cluster.open().observe()
    assert seen_now.kernels == () and [(each.kernel, each.node) for each in seen_now.claimed] == [(ID, SIM)]


def test_strangers_in_its_way_are_left_alone(cluster: Cluster, provider: KubernetesProvider) -> None:
    body = {
        "metadata": {"name": ID},
        "spec": {"containers": [{"name": "a", "image": IMAGE}], "schedulerName": "x"},
    }
    cluster.lab.api.create(cluster.path("pods"), body)
    with pytest.raises(KernelRefused, match="not bai's"):
        provider.create(kernel(node=SIM))
    with pytest.raises(KernelNotFound):
        provider.stop(ID, grace=0)
    provider.remove(ID)
    assert cluster.get("pods", ID) is not None
    nowhere = cluster.open(namespace="nowhere")
    with pytest.raises(KernelRefused, match="no namespace nowhere") as caught:
        nowhere.create(kernel(node=SIM))
    assert "create namespace nowhere" in caught.value.hint
    with pytest.raises(ProviderUnavailable, match="no node n9"):
        provider.create(kernel("v-main1-0-g1", node="n9"))
