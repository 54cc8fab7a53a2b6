"""Huge pages as users see them: in a plan, of a session that waits for them, and in its pod."""

from __future__ import annotations

import pytest

from tests.bai.conftest import Repo
from tests.integration.kubernetes_documents import cluster_documents
from tests.integration.test_kubernetes_cluster import phase, squeezed, want
from tests.lab.kubernetes.api import CORE
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.simulated import NodeShape
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
WORK = """
  command: [sleep, "1000"]
  resources: {{cpu: 1, memory: 64MiB, hugepages-2Mi: {pages}}}
"""


def test_a_session_waits_for_huge_pages_that_others_have(
    on_simulated_nodes: Repo, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    repo = on_simulated_nodes
    kubernetes.simulate([NodeShape("k0000", 0, 8, "16Gi", hugepages={"hugepages-2Mi": "4Gi"})])
    repo.write("lab.yaml", cluster_documents(kube_namespace, ["k0000"]))
    pods = f"{CORE}/namespaces/{kube_namespace}/pods"
    asked = {"cpu": "1", "memory": "32Mi", "hugepages-2Mi": "1Gi"}
    main = {"name": "main", "image": "none", "resources": {"requests": asked, "limits": asked}}
    guest = {"nodeName": "k0000", "terminationGracePeriodSeconds": 0, "containers": [main]}
    kubernetes.api.create(pods, {"metadata": {"name": "guest"}, "spec": guest})
    want(repo, "one", WORK.format(pages="2GiB"))
    want(repo, "two", WORK.format(pages="1026MiB"))
    want(repo, "huge", WORK.format(pages="5GiB"))
    plan = squeezed(repo("plan").out)
    assert "2 GiB of hugepages-2Mi" in plan
    needs = "needs 1 core, 64 MiB, 1 GiB of hugepages-2Mi on one node"
    most = "of 1 node with 1 core and 64 MiB free, k0000 has the most: 1 GiB of hugepages-2Mi"
    assert f"{needs}; {most}" in plan
    assert "needs 1 core, 64 MiB, 5 GiB of hugepages-2Mi on one node" in plan and "has 4 GiB of" in plan
    until(lambda: phase(repo, "one")["phase"] == "RUNNING", "there is room for one")
    assert phase(repo, "two")["phase"] == "PENDING"
    assert "2GiB/4GiB hugepages-2Mi" in squeezed(repo.ok("get", "nodes").out)
    (pod,) = [each for each in kubernetes.api.get(pods)["items"] if each["metadata"]["name"] != "guest"]
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["limits"]["hugepages-2Mi"] == resources["requests"]["hugepages-2Mi"] == str(2 << 30)
    assert "2 GiB of hugepages-2Mi" in squeezed(repo.ok("explain", "one").out)
    short = "2 MiB of hugepages-2Mi short: 1 GiB of hugepages-2Mi free of 4 GiB of hugepages-2Mi"
    assert short in squeezed(repo.ok("explain", "two").out)
    kubernetes.api.delete(f"{pods}/guest?gracePeriodSeconds=0")
    until(lambda: phase(repo, "two")["phase"] == "RUNNING", "the guest's pages are free")
