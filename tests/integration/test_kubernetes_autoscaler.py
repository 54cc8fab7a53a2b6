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
from tests.lab.kubernetes import autoscaler
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


def test_a_session_without_room_gets_a_node_from_an_autoscaler(
    repo: Repo, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    if why := autoscaler.why_not():
        pytest.skip(why)
    want(repo, "first", GPUS.format(count=8))
    one_pass(repo)
    assert parts(kubernetes, kube_namespace)["requests"] == []
    want(repo, "more", GPUS.format(count=5))
    assert "1 node to be asked for by the loop" in squeezed(repo("plan").out)
    one_pass(repo)
    (request,) = parts(kubernetes, kube_namespace)["requests"]
    with contextlib.closing(autoscaler.Autoscaler(kubernetes, nodes=3)) as scaler:

        def new() -> dict[str, str]:
            found = autoscaler.nodes_of_pool(kubernetes)
            return {name: uid for name, uid in found.items() if name != "pool-0"}

        until(new, lambda: f"a node comes: {scaler.daemon.tail()}", seconds=300, pause=0.5)
        ((name, uid),) = new().items()
        autoscaler.publish(kubernetes, name, uid)
        said = squeezed(repo("plan").out)
        assert f"ProvisioningRequest {kube_namespace}/{request['metadata']['name']}: provisioned" in said
        assert f"no document names {name} of its pool" in said
        repo.write("node.yaml", NODE.format(name=name))

        def runs() -> bool:
            one_pass(repo)
            return phase_of(repo, "more") == "RUNNING"

        until(runs, lambda: f"it has its node: {repo('plan').out}", pause=0.5)
    assert set(new()) == {name}, "one node, and no second one"
    until(
        lambda: (
            not parts(kubernetes, kube_namespace)["requests"]
            and not parts(kubernetes, kube_namespace)["templates"]
        ),
        "nothing is asked for any more",
    )
    asked = [
        each
        for each in parts(kubernetes, kube_namespace)["claims"]
        if "bai.dev/node-request" in each["metadata"].get("labels", {})
    ]
    assert asked == []
