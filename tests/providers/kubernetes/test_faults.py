"""What goes wrong with a real cluster: its kubelets, its API server, and people who meddle."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from providers.base import Network, Observation, Observed
from providers.kubernetes.pods import end
from providers.kubernetes.provider import KubernetesProvider
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderUnavailable
from tests.lab.docker import IMAGE
from tests.lab.kubernetes.api import ApiError
from tests.lab.kubernetes.gpus import gpu_uuid
from tests.lab.kubernetes.node import Node
from tests.lab.spaces import inside
from tests.providers.kubernetes.conftest import Cluster, once, seen
from tests.providers.kubernetes.specs import ID, kernel, script
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")
SIM = "k0000"
BEAT = "n=0; while :; do n=$((n+1)); echo $n; sleep 0.5; done"


def same_run(before: Observed, after: Observed) -> bool:
    return (before.state, before.started, before.restarts) == (after.state, after.started, after.restarts)


def counted(pair: Cluster) -> int:
    """How far the kernel has counted; 0 where its node does not say."""
    try:
        return len(pair.log(ID).split())
    except ApiError:
        return 0


@pytest.fixture
def n1(pair: Cluster) -> Iterator[Node]:
    """A node that runs again afterwards."""
    node = pair.lab.nodes["n1"]
    yield node
    pair.lab.mend()
    node.start_daemon(node.kubelet)


def test_a_cluster_that_is_away_for_a_while_harms_no_kernel(
    pair: Cluster, n1: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, lab = pair.open(), pair.lab
    provider.create(script(BEAT, node="n1", devices=(gpu_uuid("n1", 4),)))
    before = once(provider, "running")

    lab.control_plane.stop_api_server()
    until(lambda: not provider.observe().complete, "it is noticed that the API server is away", pause=0.1)
    away = provider.observe()
    assert not away.complete and away.errors and away.kernels == ()
    assert not pair.open().observe().complete
    for act in (
        lambda: provider.create(kernel("t-main1-0-g1")),
        lambda: provider.stop(ID, grace=0),
        lambda: provider.remove(ID),
    ):
        with pytest.raises(ProviderUnavailable):
            act()
    lab.mend()
    until(lambda: provider.observe().complete, "it is back", pause=0.1)
    assert same_run(before, once(provider, "running")) and seen(provider, "t-main1-0-g1") is None

    kubelet = n1.kubelet
    kubelet.kill()

    def without_n1() -> Observation | None:
        found = provider.observe()
        return found if {"n0", "n1"} & found.unreachable.keys() == {"n1"} else None

    lost = until(without_n1, lambda: f"n1 alone is not ready: {provider.observe().unreachable}", pause=0.3)
    assert lost.complete and "not ready" in lost.unreachable["n1"]
    assert [each.id for each in lost.kernels] == [ID]
    with pytest.raises(ProviderUnavailable, match="n1"):
        provider.create(kernel("t-main1-0-g1", node="n1"))
    assert pair.get("pods", "t-main1-0-g1") is None
    n1.start_daemon(kubelet)
    until(lambda: "n1" not in provider.observe().unreachable, "n1 is ready again", pause=0.3)
    assert same_run(before, once(provider, "running"))
    said = until(lambda: counted(pair), "its log is read again", pause=0.1)
    until(lambda: counted(pair) > said, "it still counts", pause=0.1)

    kubelet.kill()
    with monkeypatch.context() as patch:
        patch.setattr(end, "MARGIN", 2.0)
        with pytest.raises(ProviderUnavailable, match="has not said that"):
            provider.remove(ID)
    assert pair.get("pods", ID) is not None and pair.claims()
    until(lambda: seen(provider).state == "stopping", "it is told so")  # type: ignore[union-attr]
    n1.start_daemon(kubelet)
    until(lambda: seen(provider) is None, "the kubelet ends it when it is back", pause=0.2)
    provider.remove(ID)
    assert not pair.claims()


def test_a_node_that_turns_a_kernel_away_says_why(pair: Cluster) -> None:
    provider = pair.open()
    provider.create(kernel(cpu_milli=900_000))
    found = once(provider, "lost")
    assert found.reason.startswith("OutOfcpu") and found.exit_code is None
    provider.remove(ID)
    assert seen(provider) is None


def test_a_kernel_that_somebody_takes_away_has_not_ended_by_itself(pair: Cluster) -> None:
    provider, path = pair.open(), pair.path("pods", ID)
    provider.create(script("trap 'exit 0' TERM; echo ready; sleep 1000000 & wait"))
    once(provider, "running")
    until(lambda: "ready" in pair.log(ID), "it hears of its end", pause=0.1)
    # As controllers do that have something to clear away first: without one this lasts for a moment.
    pair.lab.api.patch(path, {"metadata": {"finalizers": ["bai.dev/test"]}})
    try:
        pair.lab.api.delete(f"{path}?gracePeriodSeconds=20")
        until(lambda: pair.get("pods", ID)["status"]["phase"] == "Succeeded", "it ends", pause=0.1)
        found = once(provider, "lost")
        assert (found.reason, found.exit_code) == ("deleted", None)
    finally:
        pair.lab.api.patch(path, {"metadata": {"finalizers": None}})
    provider.remove(ID)


@pytest.fixture
def provider(cluster: Cluster) -> KubernetesProvider:
    assert cluster.simulated() == SIM
    return cluster.open()


def test_a_kernel_that_somebody_takes_away_is_gone_and_can_be_made_again(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    spec = kernel(node=SIM, devices=(gpu_uuid(SIM, 2),))

    def runs() -> bool:
        """What the last one had may still be being cleared away; and its node, which is simulated, deletes by
        the name, which may be the new one's."""
        try:
            return provider.create(spec).state == "running"
        except ProviderUnavailable:
            return False

    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": ID}}
    api, path = cluster.lab.api, cluster.path("pods", ID)
    for take_away in (
        lambda: api.delete(f"{path}?gracePeriodSeconds=1"),
        lambda: api.delete(f"{path}?gracePeriodSeconds=0"),
        lambda: api.create(f"{path}/eviction", eviction),
    ):
        until(runs, "it is made again", pause=0.1)
        take_away()
        until(lambda: seen(provider) is None, lambda: f"it is gone: {seen(provider)}", pause=0.1)
    until(runs, "it is made again", pause=0.1)
    # Those of the ones before have no devices any more, and the cluster clears them away a moment later.
    until(lambda: len(cluster.claims()) == 1, lambda: f"its own is left: {cluster.claims()}", pause=0.1)
    provider.remove(ID)
    assert not cluster.claims()


@pytest.mark.parametrize("what", ["resourceclaims", "services"])
def test_what_is_deleted_while_a_kernel_is_made_is_made_by_the_next_attempt(
    cluster: Cluster, provider: KubernetesProvider, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """As the cluster does with what belonged to a pod that somebody deletes just then."""
    names = Network(name="net")
    provider.create(kernel("t-main1-0-g1", node=SIM, network=names))
    client, api = cluster.client(), cluster.lab.api
    deleted: list[str] = []

    def deleting(send: Any) -> Any:
        def sent(path: str, *rest: Any, **more: Any) -> Any:
            if f"/{what}/" in path and not deleted:
                deleted.append(path.removesuffix("/status"))
                api.patch(deleted[0], {"metadata": {"finalizers": None}})
                api.delete(deleted[0])
                api.gone(deleted[0], "what it changes")
            return send(path, *rest, **more)

        return sent

    for verb in ("replace", "patch"):
        monkeypatch.setattr(client, verb, deleting(getattr(client, verb)))
    other, spec = cluster.open(client), kernel(node=SIM, devices=(gpu_uuid(SIM, 2),), network=names)
    with pytest.raises(ProviderUnavailable, match="was removed while"):
        other.create(spec)
    assert other.create(spec).state in ("starting", "running")
    assert [len(api.get(cluster.path(kind))["items"]) for kind in ("resourceclaims", "services")] == [1, 1]


def test_a_cordoned_node_gets_no_kernels_and_keeps_those_it_has(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    provider.create(kernel(node=SIM))
    cluster.lab.api.patch(f"/api/v1/nodes/{SIM}", {"spec": {"unschedulable": True}})
    try:
        until(lambda: SIM in provider.observe().cordoned, "that is seen")
        assert once(provider, "running")
        with pytest.raises(ProviderUnavailable, match="unschedulable in the cluster"):
            provider.create(kernel("t-main1-0-g1", node=SIM))
        assert cluster.get("pods", "t-main1-0-g1") is None
    finally:
        cluster.lab.api.patch(f"/api/v1/nodes/{SIM}", {"spec": {"unschedulable": None}})
    until(lambda: SIM not in provider.observe().cordoned, "it takes kernels again")


def test_what_happens_to_kernels_is_told_as_it_happens(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    heard: list[tuple[str, str, str]] = []
    stop = threading.Event()

    def listen() -> None:
        for event in provider.events(stop.is_set):
            heard.append((event.what, event.kernel, event.node))

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        # Not by the name of its thread, which those of tests before have, too.
        until(lambda: provider.observer.pods._watching, "it watches")
        other = cluster.open()
        other.create(kernel(node=SIM))
        once(other, "running")
        other.remove(ID)
        wanted = [(what, ID, SIM) for what in ("created", "started", "removed")]
        until(lambda: [each for each in heard if each in wanted] == wanted, lambda: f"told: {heard}")
    finally:
        stop.set()
        listener.join()


def test_what_a_pull_is_at_is_said(pair: Cluster) -> None:
    """By a registry that is silent, for as long as containerd waits for a word of it."""
    node = pair.lab.nodes["n0"]
    with inside(node.namespace):
        silent = socket.create_server(("127.0.0.1", 5999))
    with silent:
        provider = pair.open()
        provider.create(kernel(image="127.0.0.1:5999/slow:1"))

        def said() -> str:
            return getattr(seen(provider), "reason", "")

        until(lambda: "pulling 127.0.0.1:5999/slow:1 since 20" in said(), said, pause=0.1)
        until(lambda: "ErrImagePull" in said() or "ImagePullBackOff" in said(), said, seconds=120, pause=0.2)
        provider.remove(ID)


def test_pods_are_of_the_priority_class_that_the_cluster_names(cluster: Cluster) -> None:
    classes, node, name = (
        "/apis/scheduling.k8s.io/v1/priorityclasses", cluster.simulated(), f"class-of-{cluster.namespace}",
    )  # fmt: skip
    with pytest.raises(KernelRefused, match=f"no PriorityClass with name {name}"):
        cluster.open(priorityClass=name).create(kernel(node=node))
    assert not cluster.left()
    cluster.lab.api.create(classes, {"metadata": {"name": name}, "value": 1000})
    pod = {"metadata": {"name": "try"}, "spec": {
        "priorityClassName": name, "containers": [{"name": "main", "image": IMAGE}],
    }}  # fmt: skip

    def is_known() -> bool:
        """Whether the API server, which has answered before, goes by it."""
        try:
            return bool(cluster.lab.api.create(f"{cluster.path('pods')}?dryRun=All", pod))
        except ApiError as error:
            if error.status != 403:
                raise
            return False

    try:
        until(is_known, "pods may be of the class", pause=0.1)
        cluster.open(priorityClass=name).create(kernel(node=node))
        assert cluster.get("pods", ID)["spec"]["priority"] == 1000
    finally:
        cluster.lab.api.delete(f"{classes}/{name}")
