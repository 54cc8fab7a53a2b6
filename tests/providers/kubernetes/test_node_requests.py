"""Requests for nodes on a real API server: made once, whole, seen, and gone without a trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from providers.autoscaling.values import NodeAsks, NodeNeed, NodeRequest, owner_mark
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.observe.node_asks import NOTHING
from providers.kubernetes.provider import KubernetesProvider
from schemas.problems.errors.provider import ProviderUnavailable
from tests.lab.kubernetes.api import CORE, RESOURCE
from tests.lab.kubernetes.autoscaler import POOL, provisioning_requests
from tests.lab.kubernetes.lab import Kubernetes
from tests.providers.kubernetes.conftest import Cluster
from tests.providers.kubernetes.test_requests import Cut
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]
SCALING = "/apis/autoscaling.x-k8s.io/v1"
OPTIONS = {"provisioningRequests": {"all": {"nodeSelector": POOL, "taints": ["nvidia.com/gpu"]}}}
GPU = NodeNeed(2000, 2**30, (("cuda.device", 40),))
PLAIN = NodeNeed(500, 2**20, (), (("hugepages-2Mi", 2**21),))
OURS = owner_mark("repo", "lab")
MAKING = (
    "podtemplates", "resourceclaims", "resourceclaims", "podtemplates", "provisioningrequests",
)  # fmt: skip
"""What a request of two nodes takes: 40 GPUs are two claims."""


@pytest.fixture
def known(kubernetes: Kubernetes, home: str) -> Iterator[None]:
    """Whatever a test leaves, the next one begins with nothing."""
    with provisioning_requests(kubernetes):
        yield
    for root, kind in ((CORE, "podtemplates"), (RESOURCE, "resourceclaims")):
        kubernetes.api.clear(f"{root}/namespaces/{home}/{kind}")


@pytest.fixture
def provider(cluster: Cluster, known: None) -> KubernetesProvider:
    return cluster.open(**OPTIONS)


def request(cluster: Cluster, **fields: Any) -> NodeRequest:
    given: dict[str, Any] = {
        "session": "Session/p/train",
        "nodes": (GPU, PLAIN),
        "taints": ("nvidia.com/gpu",),
    }
    given |= fields
    selector = tuple(sorted(POOL.items()))
    return NodeRequest("repo", "lab", namespace=cluster.namespace, selector=selector, **given)


def asks(provider: KubernetesProvider) -> NodeAsks:
    found = provider.observe()
    assert found.complete and found.node_asks is not None
    return found.node_asks


def state(provider: KubernetesProvider, wanted: NodeRequest) -> str:
    found = asks(provider).requests.get(wanted.key)
    return found.state if found is not None else ""


def parts(cluster: Cluster) -> dict[str, list[dict[str, Any]]]:
    inside = f"namespaces/{cluster.namespace}"
    paths = {
        "requests": f"{SCALING}/{inside}/provisioningrequests",
        "templates": f"{CORE}/{inside}/podtemplates",
        "claims": f"{RESOURCE}/{inside}/resourceclaims",
    }
    return {name: cluster.lab.api.get(path)["items"] for name, path in paths.items()}


def counts(cluster: Cluster) -> dict[str, int]:
    return {name: len(items) for name, items in parts(cluster).items()}


NONE = {"requests": 0, "templates": 0, "claims": 0}
WHOLE = {"requests": 1, "templates": 2, "claims": 2}


def is_gone(cluster: Cluster) -> None:
    until(lambda: counts(cluster) == NONE, lambda: f"nothing is left: {counts(cluster)}", pause=0.1)


def test_a_request_is_what_pods_of_the_session_would_ask_for(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    wanted = request(cluster)
    provider.ask_for_nodes(wanted)
    assert state(provider, wanted) == "new"
    there = parts(cluster)
    assert {name: len(items) for name, items in there.items()} == WHOLE
    (asked,) = there["requests"]
    assert asked["spec"]["provisioningClassName"] == "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
    sets = asked["spec"]["podSets"]
    templates = {each["metadata"]["name"]: each["template"]["spec"] for each in there["templates"]}
    assert {each["podTemplateRef"]["name"] for each in sets} == set(templates)
    first, second = (templates[each["podTemplateRef"]["name"]] for each in sets)
    for spec in (first, second):
        assert spec["nodeSelector"] == POOL
        assert [each["key"] for each in spec["tolerations"]] == ["bai.dev/node", "nvidia.com/gpu"]
        assert spec["affinity"]["podAntiAffinity"], "each has a node of its own"
    claims = {each["metadata"]["name"]: each["spec"]["devices"]["requests"] for each in there["claims"]}
    named = [each["resourceClaimName"] for each in first["resourceClaims"]]
    counted = [claims[name][0]["exactly"]["count"] for name in named]
    assert counted == [32, 8] and "resourceClaims" not in second
    (container,) = second["containers"]
    assert container["resources"]["requests"] == {
        "cpu": "500m", "memory": "1048576", "hugepages-2Mi": "2097152",
    }  # fmt: skip
    provider.withdraw_request(asks(provider).requests[wanted.key])
    is_gone(cluster)
    assert state(provider, wanted) == ""


@pytest.mark.parametrize("late", [False, True])
def test_a_request_cut_off_anywhere_is_made_whole_by_the_next_attempt(
    cluster: Cluster, provider: KubernetesProvider, late: bool
) -> None:
    wanted = request(cluster)
    for last in range(1, len(MAKING) + 1):
        with pytest.raises(ProviderUnavailable):
            cut = cluster.open(Cut(cluster.client(), last, late=late), **OPTIONS)
            cut.ask_for_nodes(wanted)
        done = last if late else last - 1
        seen = "" if done == 0 else "new" if done == len(MAKING) else "incomplete"
        until(lambda: state(provider, wanted) == seen, lambda: f"{seen}: {asks(provider)}")  # noqa: B023
        if seen != "new":
            provider.ask_for_nodes(wanted)
        until(lambda: state(provider, wanted) == "new", "it is whole")
        assert counts(cluster) == WHOLE, last
        provider.withdraw_request(asks(provider).requests[wanted.key])
        is_gone(cluster)


def test_what_a_cut_off_attempt_left_can_be_withdrawn(cluster: Cluster, provider: KubernetesProvider) -> None:
    wanted = request(cluster)
    for last in range(1, len(MAKING) + 1):
        with pytest.raises(ProviderUnavailable):
            cluster.open(Cut(cluster.client(), last, late=True), **OPTIONS).ask_for_nodes(wanted)
        until(lambda: state(provider, wanted), "it is seen")
        provider.withdraw_request(asks(provider).requests[wanted.key])
        is_gone(cluster)


def test_two_replicas_make_one_request(
    cluster: Cluster, provider: KubernetesProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, other, late = request(cluster), cluster.open(**OPTIONS), cluster.open(**OPTIONS)
    provider.ask_for_nodes(wanted)
    other.ask_for_nodes(wanted)
    assert counts(cluster) == WHOLE
    # One that looked a moment before there was any.
    monkeypatch.setattr(late.observer.asks, "look", lambda: NOTHING)
    with pytest.raises(ProviderUnavailable, match="is there already"):
        late.ask_for_nodes(wanted)
    assert counts(cluster) == WHOLE
    provider.withdraw_request(asks(provider).requests[wanted.key])
    is_gone(cluster)


def test_conditions_are_read_as_the_autoscaler_writes_them(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    """A real one is in `tests/integration/test_kubernetes_autoscaler.py`; here it says all that it can."""
    wanted = request(cluster)
    provider.ask_for_nodes(wanted)
    path = f"{SCALING}/namespaces/{cluster.namespace}/provisioningrequests/{wanted.name}/status"
    said: list[dict[str, str]] = []
    for kind, status, found in (
        ("Accepted", "True", "accepted"), ("Provisioned", "False", "not-found"),
        ("Provisioned", "True", "provisioned"), ("BookingExpired", "True", "expired"),
        ("CapacityRevoked", "True", "revoked"), ("Failed", "True", "failed"),
    ):  # fmt: skip
        about = {
            "type": kind, "status": status, "reason": f"Because{kind}", "message": "in words",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        said = [each for each in said if each["type"] != kind] + [about]
        cluster.lab.api.patch(path, {"status": {"conditions": said}})
        until(lambda: state(provider, wanted) == found, f"{kind} is seen")  # noqa: B023
    assert asks(provider).requests[wanted.key].why == "BecauseFailed: in words"
    provider.withdraw_request(asks(provider).requests[wanted.key])


def test_requests_of_others_are_neither_seen_nor_touched(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    """By name, by label, and by both, where it is another object by now."""
    wanted = request(cluster)
    inside = f"namespaces/{cluster.namespace}"
    template = {"spec": {"containers": [{"name": "a", "image": "a"}]}}
    strange = {"metadata": {"name": "theirs"}, "template": template}
    cluster.lab.api.create(f"{CORE}/{inside}/podtemplates", strange)
    body = {
        "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
        "metadata": {"name": "theirs"},
        "spec": {
            "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
            "podSets": [{"podTemplateRef": {"name": "theirs"}, "count": 1}],
        },
    }  # fmt: skip
    cluster.lab.api.create(f"{SCALING}/{inside}/provisioningrequests", body)
    assert asks(provider).requests == {}
    provider.ask_for_nodes(wanted)
    found = asks(provider).requests[wanted.key]
    stale = replace(found, request_uid="another", anchor_uid="another")
    provider.withdraw_request(stale)
    assert counts(cluster)["requests"] == 2 and counts(cluster)["templates"] == 3
    provider.withdraw_request(found)
    until(lambda: counts(cluster) == {"requests": 1, "templates": 1, "claims": 0}, "theirs are left")
    for path in ("podtemplates", "provisioningrequests"):
        root = CORE if path == "podtemplates" else SCALING
        cluster.lab.api.delete(f"{root}/{inside}/{path}/theirs")


def test_an_idle_look_asks_nothing(cluster: Cluster, known: None) -> None:
    class Counting(ApiClient):
        asked: ClassVar[list[str]] = []
        watched: ClassVar[set[str]] = set()
        """Each by a thread, which may come to it when it likes."""

        def _send(self, method: str, path: str, query: Any, *args: Any, **more: Any) -> Any:
            if (query or {}).get("watch"):
                self.watched.add(path.rpartition("/")[2])
            else:
                self.asked.append(path)
            return super()._send(method, path, query, *args, **more)

    provider = cluster.open(Counting(cluster.client().access), **OPTIONS)
    for _ in range(2):
        asks(provider)
    both = {"provisioningrequests", "podtemplates"}
    until(lambda: both <= Counting.watched, lambda: f"both are watched: {Counting.watched}")
    assert all(sum(path.endswith(kind) for path in Counting.asked) == 2 for kind in both), Counting.asked
    before = len(Counting.asked)
    asks(provider), asks(provider)
    assert Counting.asked[before:] == []


def test_what_is_left_is_found_after_the_option_has_gone(
    cluster: Cluster, provider: KubernetesProvider
) -> None:
    wanted, later = request(cluster), cluster.open()
    provider.ask_for_nodes(wanted)
    assert later.observe().node_asks is None
    assert later.requests_left("repo", "elsewhere") == ()
    (found,) = later.requests_left("repo", "lab")
    assert (found.key, found.owner) == (wanted.key, OURS)
    later.withdraw_request(found)
    is_gone(cluster)


def test_a_cluster_without_provisioning_requests_says_so_and_goes_on(cluster: Cluster) -> None:
    provider = cluster.open(**OPTIONS)
    assert "the cluster has no ProvisioningRequests" in asks(provider).why_not
    cautions = provider.capabilities().cautions
    assert sum("no nodes are asked for: the cluster has no" in text for text in cautions) == 1
    assert provider.requests_left("repo", "lab") == ()
    checks = {each.name: each for each in provider.check_setup()}
    assert checks["node requests"].failed and "--enable-provisioning-requests" in checks["node requests"].hint


def test_claims_of_requests_are_no_use_of_others(cluster: Cluster, provider: KubernetesProvider) -> None:
    """Else the session for which they are made would wait for the quota that they fill."""
    devices = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    path = f"{CORE}/namespaces/{cluster.namespace}/resourcequotas"
    hard = {devices: "8", "count/resourceclaims.resource.k8s.io": "3"}
    cluster.lab.api.create(path, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    wanted = request(cluster, nodes=(NodeNeed(1000, 2**20, (("cuda.device", 8),)),))

    def used() -> dict[str, str]:
        return dict((cluster.lab.api.get(f"{path}/q").get("status") or {}).get("used") or {})

    until(lambda: used().keys() >= hard.keys(), "the quota is counted")
    provider.ask_for_nodes(wanted)
    until(lambda: used().get(devices) == "8", "the claim is counted")

    def others() -> dict[str, int]:
        (quota,) = provider.observe().quotas
        return dict(quota.others)

    until(lambda: others() == {"cuda.device": 0, "resourceclaims": 0}, lambda: f"nobody's: {others()}")
    provider.withdraw_request(asks(provider).requests[wanted.key])
    until(lambda: used().get(devices) == "0", "the quota is free before a pod is made")
    cluster.lab.api.delete(f"{path}/q")


def test_nodes_of_the_pool_that_no_document_names_are_told(cluster: Cluster, known: None) -> None:
    cluster.simulated()
    path = f"{CORE}/nodes/k0000"
    cluster.lab.api.patch(path, {"metadata": {"labels": POOL}})
    cluster.nodes = ("n9",)
    provider = cluster.open(**OPTIONS)
    until(lambda: asks(provider).unnamed == {"all": ("k0000",)}, lambda: f"it is told: {asks(provider)}")
    cluster.nodes = ("k0000",)
    assert asks(cluster.open(**OPTIONS)).unnamed == {}
