"""GPUs that a device plugin counts, on a real kubelet, which chooses them; the plugin is a stand-in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from planner.model.types import DeviceGrant, KernelPlacement
from providers.base import ForeignUse, KernelSpec
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.provider import KubernetesProvider
from reconciler.values.encoding.placement_json import canonical_json
from schemas.problems.errors.kernel import KernelRefused
from tests.lab.docker import IMAGE
from tests.lab.kubernetes.gpus import COUNTED, gpu_uuid
from tests.lab.kubernetes.simulated import NodeShape
from tests.providers.kubernetes.conftest import Cluster, once, seen
from tests.providers.kubernetes.specs import LABELS, kernel
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")
NODE = "n5"
SEEN = """
echo uuids $NVIDIA_VISIBLE_DEVICES
echo nodes $(ls /dev | grep nvidia)
trap 'exit 0' TERM; sleep 1000 & wait
"""
ALL = frozenset(gpu_uuid(NODE, number) for number in range(4))


def ids(*numbers: int, node: str = NODE) -> tuple[str, ...]:
    return tuple(f"{node}:{COUNTED}:{number}" for number in numbers)


def counted(name: str, *numbers: int, node: str = NODE, **fields: Any) -> KernelSpec:
    """A kernel with these GPUs by number, as a plan makes it, and as its labels say."""
    devices = ids(*numbers, node=node)
    grants = tuple(DeviceGrant(each, "cuda.device") for each in devices)
    placement = canonical_json(KernelPlacement("main1", node, (), 0, (), 0, grants))
    labels = replace(LABELS, node=node, resource=f"Session/p/{name}", placement=placement)
    return kernel(
        f"{name}-main1-0-g1", "sh", "-c", SEEN, labels=labels, devices=devices, **fields
    )  # fmt: skip


def what_it_sees(cluster: Cluster, spec: KernelSpec) -> frozenset[str]:
    """UUIDs of its GPUs, by its variable; the device nodes are those of the same ones."""

    def said() -> dict[str, list[str]] | None:
        lines = [line.split() for line in cluster.log(spec.id).splitlines()]
        found = {words[0]: words[1:] for words in lines if words}
        return found if "nodes" in found else None

    found = until(said, f"{spec.id} says what it sees")
    uuids = frozenset(found["uuids"][0].split(","))
    numbers = {name.removeprefix("nvidia") for name in found["nodes"]}
    assert uuids == {gpu_uuid(NODE, int(number)) for number in numbers}
    return uuids


def guest(cluster: Cluster, name: str, count: int | str, node: str) -> None:
    """A pod of somebody else, on a node by name."""
    asked = {COUNTED: str(count)}
    main = {
        "name": "main", "image": IMAGE, "command": ["sleep", "1000"],
        "resources": {"limits": asked},
    }  # fmt: skip
    spec = {
        "nodeName": node,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [main],
    }
    cluster.lab.api.create(cluster.path("pods"), {"metadata": {"name": name}, "spec": spec})


@pytest.fixture
def one(cluster: Cluster) -> Iterator[Cluster]:
    """With the node whose GPUs are counted."""
    cluster.lab.counts()
    cluster.nodes = (NODE,)
    yield cluster


def offered(provider: KubernetesProvider, node: str = NODE) -> frozenset[str]:
    found = provider.observe().offered
    assert found is not None
    return found.devices.get(node, frozenset())


def test_a_kubelet_gives_as_many_as_a_kernel_has_and_no_two_the_same(one: Cluster) -> None:
    provider = one.open()
    hardware, _ = provider.hardware(frozenset({NODE}))
    assert [gpu.id for gpu in hardware[NODE].gpus] == list(ids(0, 1, 2, 3))
    assert any("the kubelet chooses" in each for each in hardware[NODE].unknown)
    first, second = counted("one", 1, 3), counted("two", 0)
    for spec in (first, second):
        provider.create(spec)
        once(provider, "running", spec.id)
    two, lone = what_it_sees(one, first), what_it_sees(one, second)
    assert (len(two), len(lone)) == (2, 1)
    assert not two & lone and two | lone < ALL
    pod = one.get("pods", first.id)
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["limits"][COUNTED] == resources["requests"][COUNTED] == "2"
    assert "resourceClaims" not in pod["spec"] and not one.claims(first.id)
    again = one.open()
    found = seen(again, first.id)
    assert found is not None
    devices = [each["id"] for each in json.loads(found.labels.placement)["devices"]]
    assert devices == list(ids(1, 3)) and offered(again) == set(ids(0, 1, 2, 3))
    assert one.use(again, NODE).devices == ()
    provider.remove(first.id)
    third = counted("three", 1, 2, 3)
    provider.create(third)
    once(provider, "running", third.id)
    assert what_it_sees(one, third) == ALL - lone


def test_what_others_ask_for_is_theirs_and_never_given_twice(one: Cluster) -> None:
    provider = one.open()
    guest(one, "guest", 3, NODE)
    until(lambda: len(one.use(provider, NODE).devices) == 3, "the guest's GPUs are its own")
    assert one.use(provider, NODE).devices == ids(1, 2, 3)
    assert f"{one.namespace}/guest" in one.use(provider, NODE).owner
    late = counted("late", 0, 1)
    with pytest.raises(KernelRefused, match=r"2 nvidia\.com/gpu on node n5: of 4 .* ask for 3") as refused:
        provider.create(late)
    assert "kubectl describe node n5" in (refused.value.hint or "")
    assert one.get("pods", late.id) is None
    fits = counted("fits", 0)
    provider.create(fits)
    once(provider, "running", fits.id)
    assert len(what_it_sees(one, fits)) == 1


def test_a_pod_that_its_kubelet_turns_away_is_lost_with_the_reason(one: Cluster) -> None:
    """Somebody binds a pod in the moment between the last look and the binding."""

    class Quick(ApiClient):
        def create(self, path: str, body: Any) -> Any:
            if path.endswith("/binding"):
                guest(one, "quicker", 4, NODE)
                one.lab.begun(one.namespace, "quicker")
            return super().create(path, body)

    client = one.client()
    client.__class__ = Quick
    provider = one.open(client)
    spec = counted("turned", 0)
    provider.create(spec)
    found = once(provider, "lost", spec.id)
    assert "nvidia.com/gpu" in found.reason
    assert one.use(provider, NODE).devices == ids(0, 1, 2, 3)


def test_what_is_not_healthy_is_not_offered_and_what_runs_goes_on(one: Cluster) -> None:
    provider, node = one.open(), one.lab.counts()
    spec = counted("runs", 3)
    provider.create(spec)
    once(provider, "running", spec.id)
    node.count(unhealthy=2)
    until(lambda: offered(provider) == set(ids(0, 3)), "as many are offered as are left, its own among them")
    with pytest.raises(KernelRefused, match="of 2 that are allocatable"):
        provider.create(counted("more", 0, 1))
    hardware, _ = provider.hardware(frozenset({NODE}))
    assert len(hardware[NODE].gpus) == 4
    assert once(provider, "running", spec.id).state == "running"
    node.count()
    until(lambda: offered(provider) == set(ids(0, 1, 2, 3)), "all are offered again")


def test_a_kubelet_that_restarts_takes_them_away_for_a_moment(one: Cluster) -> None:
    provider, node = one.open(), one.lab.counts()
    spec = counted("stays", 2)
    provider.create(spec)
    once(provider, "running", spec.id)
    before = what_it_sees(one, spec)
    node.plugin.kill()
    node.restart(node.kubelet)
    until(lambda: not offered(provider) - set(ids(2)), "nothing but what runs is offered")
    node.start_daemon(node.plugin)
    until(lambda: offered(provider) == set(ids(0, 1, 2, 3)), "the plugin has registered again")
    other = counted("other", 0, 1, 3)
    provider.create(other)
    once(provider, "running", other.id)
    assert what_it_sees(one, other) == ALL - before


def test_an_attempt_that_was_cut_off_goes_on_with_the_pod_that_it_made(one: Cluster) -> None:
    class Killed(Exception):
        """As if the process were gone."""

    class Dying(ApiClient):
        def create(self, path: str, body: Any) -> Any:
            if path.endswith("/binding"):
                raise Killed
            return super().create(path, body)

    client = one.client()
    client.__class__ = Dying
    spec = counted("cut", 0, 1)
    dying = one.open(client)
    dying._take_back = lambda ref: None  # type: ignore[method-assign]
    with pytest.raises(Killed):
        dying.create(spec)
    made = one.get("pods", spec.id)
    assert not made["spec"].get("nodeName")
    provider = one.open()
    provider.create(spec)
    once(provider, "running", spec.id)
    assert one.get("pods", spec.id)["metadata"]["uid"] == made["metadata"]["uid"]
    assert len(what_it_sees(one, spec)) == 2


def test_absurd_counts_blind_nobody(cluster: Cluster) -> None:
    """Of a node, of its labels, and of a pod that somebody has put there."""
    amounts = {"k0000": {COUNTED: "9999999999"}, "k0001": {COUNTED: "4"}, "k0002": {COUNTED: "4"}}
    garbage = {
        "nvidia.com/gpu.memory": "9" * 60, "nvidia.com/gpu.product": "-MIG-", "nvidia.com/gpu.count": "many",
    }  # fmt: skip
    garbage["nvidia.com/gpu.product"] = "x-MIG-9g"
    shapes = [
        NodeShape(name, 0, counted=counts, labels=garbage if name == "k0001" else {})
        for name, counts in amounts.items()
    ]
    cluster.lab.simulate(shapes)
    guest(cluster, "greedy", "9999999999", "k0001")
    provider = cluster.open()
    hardware, _ = provider.hardware(frozenset(amounts))
    assert [len(hardware[name].gpus) for name in amounts] == [0, 4, 4]
    assert any("9999999999, which is no number" in each for each in hardware["k0000"].unknown)
    assert {gpu.memory for gpu in hardware["k0001"].gpus} == {0}
    until(lambda: len(cluster.use(provider, "k0001").devices) == 4, "the greedy pod has all of its node")
    assert cluster.use(provider, "k0002") == ForeignUse("k0002", "")
    spec = counted("fits", 0, node="k0002")
    provider.create(spec)
    once(provider, "running", spec.id)


class Counting(ApiClient):
    """Writes down what is asked of the API server, but for watches."""

    asked: ClassVar[list[str]] = []

    def _send(self, method: str, path: str, query: Any, *args: Any, **more: Any) -> Any:
        if not (query or {}).get("watch"):
            self.asked.append(f"{method} {path}")
        return super()._send(method, path, query, *args, **more)


def test_what_is_counted_costs_no_request_of_a_look(cluster: Cluster) -> None:
    cluster.lab.simulate([NodeShape("k0000", 0, counted={COUNTED: "8"})])
    client = cluster.client()
    client.__class__ = Counting
    provider = cluster.open(client)
    for _ in range(2):
        provider.observe()
    first = counted("first", 0, node="k0000")
    provider.create(first)
    once(provider, "running", first.id)  # While one waits, its events are asked for.
    Counting.asked.clear()
    provider.observe()
    assert Counting.asked == []
    spec = counted("next", 1, node="k0000")
    provider.create(spec)
    assert Counting.asked == [
        f"POST {cluster.path('pods')}", f"POST {cluster.path('pods', spec.id)}/binding",
    ]  # fmt: skip
