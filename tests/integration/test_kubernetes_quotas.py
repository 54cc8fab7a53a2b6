"""A namespace's ResourceQuota as a plan sees it, and what happens to who does not see it coming."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.bai.conftest import Repo
from tests.integration.test_kubernetes_cluster import phase, squeezed, want
from tests.lab.kubernetes.api import CORE
from tests.lab.kubernetes.lab import Kubernetes
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
GPUS = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
NOTHING: Mapping[str, str] = MappingProxyType({})
WORK = """
  command: [sleep, "1000"]
  resources: {cpu: 1, memory: 64MiB, cuda.device: 2}
"""
GANG = """
  cluster: {mode: multi-node, roles: {main: 1, sub: 1}}
  command: [sleep, "1000"]
  resources: {cpu: 1, memory: 64MiB}
"""


def limit(lab: Kubernetes, namespace: str, used: Mapping[str, str] = NOTHING, **hard: str) -> None:
    """A quota, once it is counted, and this is used of it; `devices`: GPUs of claims."""
    amounts = {GPUS if name == "devices" else name: amount for name, amount in hard.items()}
    path = f"{CORE}/namespaces/{namespace}/resourcequotas"

    def counted(found: Any) -> dict[str, str]:
        return dict((found.get("status") or {}).get("used") or {})

    def is_right() -> bool:
        """The controller may hear of a pod after a quota that is younger, and counts no second time."""
        lab.api.create(path, {"metadata": {"name": "q"}, "spec": {"hard": amounts}})
        found = lab.api.until(f"{path}/q", lambda it: counted(it).keys() >= amounts.keys(), "it is counted")
        if used.items() <= counted(found).items():
            return True
        lab.api.delete(f"{path}/q")
        return False

    until(is_right, f"{used} is used")


def until_made(repo: Repo, name: str) -> None:
    """Passes until it runs. They may fail: the API server refuses by what is gone for a moment more."""

    def runs() -> bool:
        repo("apply", "--yes")
        (found,) = repo.ok("get", f"session/{name}", "-o", "json").json["items"]
        return bool(found["phase"] == "RUNNING")

    until(runs, lambda: f"it is made: {repo('plan').out}")


def test_a_session_that_the_quota_has_no_room_for_waits_for_it(
    on_simulated_nodes: Repo, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    repo = on_simulated_nodes
    pods = f"{CORE}/namespaces/{kube_namespace}/pods"
    asked = {"cpu": "1", "memory": "32Mi"}
    main = {"name": "main", "image": "none", "resources": {"requests": asked, "limits": asked}}
    nowhere = {"schedulerName": "nobody", "containers": [main]}
    kubernetes.api.create(pods, {"metadata": {"name": "guest"}, "spec": nowhere})
    limit(kubernetes, kube_namespace, {"pods": "1"}, pods="3", devices="3")
    want(repo, "one", WORK)
    want(repo, "two", WORK)
    said = squeezed(repo("plan").out)
    quota = f"quota ResourceQuota/{kube_namespace}/q (cluster lab): "
    assert f"{quota}uses 2 GPUs of 3 GPUs, 0 GPUs by others; this session asks for 2 GPUs more" in said
    until(lambda: phase(repo, "one")["phase"] == "RUNNING", "there is room for one")
    assert phase(repo, "two")["phase"] == "PENDING"
    want(repo, "two", GANG)
    said = squeezed(repo("plan").out)
    assert f"{quota}uses 2 pods of 3 pods, 1 pod by others; this session asks for 2 pods more" in said
    kubernetes.api.delete(f"{pods}/guest?gracePeriodSeconds=0")
    until_made(repo, "two")  # The guest's room is the gang's.


def test_what_a_quota_refuses_leaves_no_half_of_a_gang_and_is_tried_again(
    on_simulated_nodes: Repo, kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path
) -> None:
    repo = on_simulated_nodes
    want(repo, "gang", GANG)
    saved = str(tmp_path / "saved.plan")
    repo.ok("plan", "--out", saved)
    limit(kubernetes, kube_namespace, pods="1")
    failed = repo("apply", saved, "--yes")
    assert failed.code != 0 and "exceeded quota: q" in squeezed(failed.out + failed.err)
    assert kubernetes.api.get(f"{CORE}/namespaces/{kube_namespace}/pods")["items"] == []
    said = squeezed(repo("plan").out)
    assert f"ResourceQuota/{kube_namespace}/q" in said and "asks for 2 pods more" in said
    kubernetes.api.delete(f"{CORE}/namespaces/{kube_namespace}/resourcequotas/q")
    until_made(repo, "gang")


def test_a_container_that_a_limit_range_refuses_waits_and_says_so(
    on_simulated_nodes: Repo, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    repo = on_simulated_nodes
    path = f"{CORE}/namespaces/{kube_namespace}/limitranges"
    bound = {"type": "Container", "max": {"cpu": "500m"}, "min": {"memory": "1Mi"}}
    kubernetes.api.create(path, {"metadata": {"name": "r"}, "spec": {"limits": [bound]}})
    want(repo, "gang", GANG)
    limit = f"LimitRange/{kube_namespace}/r (cluster lab): allows at most 0.5 cores per container"
    assert f"{limit}; this session asks for 1 core in one" in squeezed(repo.ok("plan").out)
    assert phase(repo, "gang")["phase"] == "PENDING"
    assert kubernetes.api.get(f"{CORE}/namespaces/{kube_namespace}/pods")["items"] == []
    kubernetes.api.delete(f"{path}/r")
    until_made(repo, "gang")
