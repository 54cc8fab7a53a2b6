"""Nodes that are asked for: by a real cluster-autoscaler, which grows a pool of simulated ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bai.conftest import Repo
from tests.integration.kubernetes_documents import cluster_documents
from tests.integration.test_kubernetes_cluster import squeezed, want
from tests.lab.kubernetes import autoscaler, gpus
from tests.lab.kubernetes.api import CORE, RESOURCE
from tests.lab.kubernetes.lab import Kubernetes
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
SCALING = "/apis/autoscaling.x-k8s.io/v1"
OPTION = "provisioningRequests: {all: {nodeSelector: {pool: gpus}, maxNodes: 2}}"
NODE = """apiVersion: bai/v1
kind: Node
metadata: {{name: {name}}}
spec: {{resourceGroup: all}}
"""
GANG = """
  cluster: {mode: multi-node, roles: {main: 1, sub: 1}}
  command: [sleep, "1000"]
  resources: {cpu: 1, memory: 64MiB, cuda.device: 5}
"""
GPUS = """
  command: [sleep, "1000"]
  resources: {{cpu: 1, memory: 64MiB, cuda.device: {count}}}
"""


@pytest.fixture
def first_node(kubernetes: Kubernetes) -> Iterator[str]:
    """The one that the pool has already: an autoscaler knows from it what devices its nodes have."""
    with autoscaler.provisioning_requests(kubernetes):
        kubernetes.kwok(1)  # Whoever answers for simulated nodes.
        made = kubernetes.api.create(f"{CORE}/nodes", autoscaler.pool_node("pool-0"))
        autoscaler.publish(kubernetes, "pool-0", made["metadata"]["uid"])
        kubernetes.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "node/pool-0")
        yield "pool-0"


@pytest.fixture
def repo(kubernetes: Kubernetes, kube_namespace: str, first_node: str, tmp_path: Path) -> Iterator[Repo]:
    (tmp_path / "repository").mkdir()
    environment = {"KUBECONFIG": str(kubernetes.kubeconfig), "COLUMNS": "200", "NO_COLOR": "1"}
    made = Repo(tmp_path / "repository", {"XDG_STATE_HOME": str(tmp_path / "state"), **environment})
    made.write("lab.yaml", cluster_documents(kube_namespace, [first_node], options=OPTION))
    yield made
    made.ok("destroy", "--yes")


def one_pass(repo: Repo) -> None:
    """Of the loop, whatever it says of other things."""
    repo("reconcile", "--once")


def parts(lab: Kubernetes, namespace: str) -> dict[str, list[Any]]:
    """What of requests is there."""
    kinds = {
        "requests": f"{SCALING}/namespaces/{namespace}/provisioningrequests",
        "templates": f"{CORE}/namespaces/{namespace}/podtemplates",
        "claims": f"{RESOURCE}/namespaces/{namespace}/resourceclaims",
    }
    return {name: lab.api.get(path)["items"] for name, path in kinds.items()}


def phase_of(repo: Repo, name: str) -> str:
    (found,) = repo.ok("get", f"session/{name}", "-o", "json").json["items"]
    return str(found["phase"])


def asked_parts(lab: Kubernetes, namespace: str) -> int:
    """How many objects of requests there are."""
    return sum(
        "bai.dev/node-request" in each["metadata"].get("labels", {})
        for items in parts(lab, namespace).values()
        for each in items
    )


def test_sessions_without_room_get_nodes_from_an_autoscaler(
    repo: Repo, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    """A gang gets both of its nodes, and no third one; who asks for more than the pool may have is told."""
    if why := autoscaler.why_not():
        pytest.skip(why)
    want(repo, "first", GPUS.format(count=8))
    one_pass(repo)
    assert asked_parts(kubernetes, kube_namespace) == 0
    want(repo, "gang", GANG)
    assert "2 nodes to be asked for by the loop" in squeezed(repo("plan").out)
    one_pass(repo)
    (request,) = parts(kubernetes, kube_namespace)["requests"]
    with contextlib.closing(autoscaler.Autoscaler(kubernetes, nodes=3)) as scaler:

        def new() -> dict[str, str]:
            found = autoscaler.nodes_of_pool(kubernetes)
            return {name: uid for name, uid in found.items() if name != "pool-0"}

        until(lambda: len(new()) == 2, lambda: f"nodes come: {scaler.daemon.tail()}", seconds=300, pause=0.5)
        for name, uid in new().items():
            autoscaler.publish(kubernetes, name, uid)
        told = f"ProvisioningRequest {kube_namespace}/{request['metadata']['name']}: provisioned"
        until(lambda: told in squeezed(repo("plan").out), "it says so")
        said = squeezed(repo("describe", "session/gang").out)
        assert told in said and f"no document names {', '.join(sorted(new()))} of its pool" in said
        repo.write("nodes.yaml", "---\n".join(NODE.format(name=name) for name in new()))

        def runs() -> bool:
            one_pass(repo)
            return phase_of(repo, "gang") == "RUNNING"

        until(runs, lambda: f"it has its nodes: {repo('plan').out}", pause=0.5)
        assert len(new()) == 2
        until(lambda: asked_parts(kubernetes, kube_namespace) == 0, "nothing is asked for any more")
        want(repo, "more", GPUS.format(count=8))
        one_pass(repo)
        told = "no capacity found, tried again by the autoscaler: CapacityIsNotFound"
        until(lambda: told in squeezed(repo("plan").out), lambda: repo("plan").out, pause=0.5)
    assert len(new()) == 2
    repo.ok("destroy", "--yes")
    until(lambda: asked_parts(kubernetes, kube_namespace) == 0, "with its session its request goes")


@pytest.fixture
def counted_node(kubernetes: Kubernetes) -> Iterator[str]:
    """The same, where a device plugin counts GPUs: the cluster has no device class for them."""
    path = f"{RESOURCE}/deviceclasses"
    with autoscaler.provisioning_requests(kubernetes):
        kubernetes.api.delete(f"{path}/{gpus.DRIVER}")
        try:
            kubernetes.kwok(1)
            kubernetes.api.create(f"{CORE}/nodes", autoscaler.pool_node("pool-0", counted=True))
            kubernetes.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "node/pool-0")
            yield "pool-0"
        finally:
            kubernetes.api.create(path, gpus.device_class())


def test_gpus_that_nodes_count_are_asked_for_by_limits(
    counted_node: str, kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path
) -> None:
    if why := autoscaler.why_not():
        pytest.skip(why)
    (tmp_path / "repository").mkdir()
    environment = {"KUBECONFIG": str(kubernetes.kubeconfig), "COLUMNS": "200", "NO_COLOR": "1"}
    repo = Repo(tmp_path / "repository", {"XDG_STATE_HOME": str(tmp_path / "state"), **environment})
    repo.write("lab.yaml", cluster_documents(kube_namespace, [counted_node], options=OPTION))
    want(repo, "first", GPUS.format(count=8))
    want(repo, "gang", GANG)
    one_pass(repo)
    asked = parts(kubernetes, kube_namespace)
    limits = [
        each["template"]["spec"]["containers"][0]["resources"]["limits"][gpus.COUNTED]
        for each in asked["templates"]
    ]
    assert limits == ["5", "5"] and asked["claims"] == []
    with contextlib.closing(autoscaler.Autoscaler(kubernetes, nodes=4, counted=True)) as scaler:

        def new() -> list[str]:
            return sorted(set(autoscaler.nodes_of_pool(kubernetes)) - {counted_node})

        until(lambda: len(new()) == 2, lambda: f"nodes come: {scaler.daemon.tail()}", seconds=300, pause=0.5)
        repo.write("nodes.yaml", "---\n".join(NODE.format(name=name) for name in new()))

        def runs() -> bool:
            one_pass(repo)
            return phase_of(repo, "gang") == "RUNNING"

        until(runs, lambda: f"it has its nodes: {repo('plan').out}", pause=0.5)
        assert len(new()) == 2
        until(lambda: asked_parts(kubernetes, kube_namespace) == 0, "nothing is asked for any more")
    repo.ok("destroy", "--yes")
