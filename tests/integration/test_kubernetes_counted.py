"""Clusters whose GPUs a device plugin counts, as their users have them: what a plan says, what a session
gets, what becomes of a store that is lost and of pods that are adopted."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bai.conftest import Repo
from tests.integration.kubernetes_documents import cluster_documents
from tests.integration.test_kubernetes_cluster import make, phase, squeezed, until_it_says, want
from tests.integration.test_kubernetes_import import plain
from tests.integration.test_kubernetes_quotas import limit
from tests.lab.kubernetes.api import CORE
from tests.lab.kubernetes.gpus import COUNTED, gpu_uuid
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.simulated import NodeShape
from tests.waiting import until

__all__ = ["make"]
pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
WORK = """
  command: [sh, -c, "echo had $NVIDIA_VISIBLE_DEVICES; sleep 1000"]
  env: {{NVIDIA_VISIBLE_DEVICES: all}}
  resources: {{cpu: 100m, memory: 16MiB, {gpus}}}
"""
CHOICE = "is the kubelet's choice, and how many is kept to"
Make = Callable[..., Repo]


def counts(name: str, count: int, **more: Any) -> NodeShape:
    return NodeShape(name, 0, counted={COUNTED: str(count), **more}, labels=LABELS)


def guest(lab: Kubernetes, namespace: str, node: str, count: int) -> str:
    """A pod of somebody else; the path by which it goes."""
    main = {"name": "main", "image": "none", "resources": {"limits": {COUNTED: str(count)}}}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [main]}
    pods = f"{CORE}/namespaces/{namespace}/pods"
    lab.api.create(pods, {"metadata": {"name": "guest"}, "spec": spec})
    return f"{pods}/guest?gracePeriodSeconds=0"


def test_a_kubelet_chooses_which_and_the_plan_says_so(make: Make, kubernetes: Kubernetes) -> None:
    node = kubernetes.counts().name
    repo = make(node)
    want(repo, "two", WORK.format(gpus="cuda.device: 2"))
    want(repo, "one", WORK.format(gpus="cuda.device: 1"))
    want(repo, "none", WORK.format(gpus="cuda.device: 0"))
    planned = repo.ok("plan").out
    assert f"which GPUs it has on {node} {CHOICE}" in squeezed(planned)
    assert "any 2 GPUs" in planned and f"{node}:{COUNTED}" not in planned
    assert CHOICE in repo.ok("plan", "--format", "json").out
    # Other tests may have left nodes of the kind.
    told = rf"device plugins {COUNTED} on [1-9] nodes?: how many a session has is kept to"
    assert re.search(told, squeezed(repo("doctor").out))
    repo.ok("apply", "--yes")
    had = {name: until_it_says(repo, name, "had").split()[1].split(",") for name in ("one", "two", "none")}
    every = {gpu_uuid(node, number) for number in range(4)}
    assert (len(had["one"]), len(had["two"]), had["none"]) == (1, 2, ["void"])
    assert set(had["one"]) | set(had["two"]) < every and not set(had["one"]) & set(had["two"])
    assert "any 2 GPUs" in repo.ok("describe", "two").out
    explained = squeezed(repo.ok("explain", "two").out)
    assert "which one it is, the kubelet chooses" in explained and "PCI path" not in explained
    assert "where its GPUs lie, and how they are connected, nobody tells" in explained
    assert "the kubelet chooses whose they are" in squeezed(repo.ok("nodes", "show", node).out)
    want(repo, "late", WORK.format(gpus="cuda.device: 2"))
    assert phase(repo, "late")["phase"] == "PENDING"
    assert "needs 2 GPUs" in squeezed(repo.ok("explain", "late").out)


def test_a_lost_store_knows_the_counts_again(make: Make, kubernetes: Kubernetes, kube_namespace: str) -> None:
    pods = f"{CORE}/namespaces/{kube_namespace}/pods"
    kubernetes.simulate([counts("k0000", 4)])
    repo = make("k0000")
    want(repo, "a", WORK.format(gpus="cuda.device: 3"))
    until(lambda: phase(repo, "a")["phase"] == "RUNNING", "there is room")
    before, (pod,) = placed(repo, "a"), kubernetes.api.get(pods)["items"]
    shutil.rmtree(repo.root / ".bai")
    repo.ok("state", "rebuild")
    assert placed(repo, "a") == before and len(before) == 3
    want(repo, "b", WORK.format(gpus="cuda.device: 2"))
    assert phase(repo, "b")["phase"] == "PENDING"
    (still,) = kubernetes.api.get(pods)["items"]
    assert still["metadata"]["uid"] == pod["metadata"]["uid"]


def placed(repo: Repo, name: str) -> list[str]:
    """Ids of a session's devices."""
    found = json.loads(repo.ok("explain", name, "--format", "json").out)
    return sorted(
        device["id"] for kernel in found["placement"]["kernels"] for device in kernel["devices"]
    )  # fmt: skip


def test_others_are_counted_and_parts_are_refused(
    on_simulated_nodes: Repo, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    repo = on_simulated_nodes
    kubernetes.simulate([counts("k0000", 4, **{"nvidia.com/mig-1g.10gb": "2"})])
    repo.write("lab.yaml", cluster_documents(kube_namespace, ["k0000"]))
    gone = guest(kubernetes, kube_namespace, "k0000", 3)
    want(repo, "two", WORK.format(gpus="cuda.device: 2"))
    want(repo, "slice", WORK.format(gpus="cuda.mig.1g.10gb: 1"))
    want(repo, "half", WORK.format(gpus="cuda.shares: 0.5"))
    said = squeezed(repo.ok("plan").out)
    assert "any 1 cuda.mig.1g.10gb" in said
    assert "no node can give parts of a GPU: k0000: a device plugin counts its GPUs" in said
    until(lambda: phase(repo, "slice")["phase"] == "RUNNING", "there is an instance")
    assert [phase(repo, name)["phase"] for name in ("two", "half")] == ["PENDING"] * 2
    assert f"Foreign/{kube_namespace}/guest@k0000" in squeezed(repo.ok("explain", "two").out)
    pods = kubernetes.api.get(f"{CORE}/namespaces/{kube_namespace}/pods")["items"]
    (pod,) = [each for each in pods if each["metadata"]["name"].startswith("slice")]
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == "1"
    kubernetes.api.delete(gone)
    until(lambda: phase(repo, "two")["phase"] == "RUNNING", "the guest's are free")
    assert phase(repo, "half")["phase"] == "PENDING"


def test_what_others_take_between_a_plan_and_its_apply_is_refused_and_placed_elsewhere(
    on_simulated_nodes: Repo, kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path
) -> None:
    repo = on_simulated_nodes
    kubernetes.simulate([counts("k0000", 4), counts("k0001", 2)])
    repo.write("lab.yaml", cluster_documents(kube_namespace, ["k0000", "k0001"]))
    want(repo, "two", WORK.format(gpus="cuda.device: 2"))
    saved = str(tmp_path / "saved.plan")
    assert "k0000" in repo.ok("plan", "--out", saved).out
    guest(kubernetes, kube_namespace, "k0000", 3)
    failed = repo("apply", saved, "--yes")
    assert failed.code != 0
    until(lambda: phase(repo, "two")["phase"] == "RUNNING", "it is placed elsewhere")
    (found,) = repo.ok("get", "session/two", "-o", "json").json["items"]
    assert "k0001" in json.dumps(found)


def test_a_quota_of_counted_gpus_is_part_of_the_plan(
    on_simulated_nodes: Repo, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    repo = on_simulated_nodes
    kubernetes.simulate([counts("k0000", 8)])
    repo.write("lab.yaml", cluster_documents(kube_namespace, ["k0000"]))
    limit(kubernetes, kube_namespace, **{"requests.nvidia.com/gpu": "3"})
    want(repo, "one", WORK.format(gpus="cuda.device: 2"))
    want(repo, "two", WORK.format(gpus="cuda.device: 2"))
    quota = f"quota ResourceQuota/{kube_namespace}/q (cluster lab): "
    words = "uses 2 GPUs of 3 GPUs, 0 GPUs by others; this session asks for 2 GPUs more"
    assert quota + words in squeezed(repo.ok("plan").out)
    until(lambda: phase(repo, "one")["phase"] == "RUNNING", "there is room for one")
    until(lambda: quota + words in squeezed(repo.ok("plan").out), "the one that runs counts once")
    assert phase(repo, "two")["phase"] == "PENDING"


def test_a_running_pod_is_adopted_with_its_count(
    kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path
) -> None:
    kubernetes.simulate([counts("k0000", 4)])
    (tmp_path / "repository").mkdir()
    environment = {"KUBECONFIG": str(kubernetes.kubeconfig), "COLUMNS": "200", "NO_COLOR": "1"}
    repo = Repo(tmp_path / "repository", {"XDG_STATE_HOME": str(tmp_path / "state"), **environment})
    for name, count in (("a", 1), ("b", 2)):
        pod = plain(name, nodeName="k0000")
        pod["spec"]["containers"][0]["resources"]["limits"][COUNTED] = str(count)
        kubernetes.api.create(f"{CORE}/namespaces/{kube_namespace}/pods", pod)
        kubernetes.begun(kube_namespace, name)
    repo.ok("import", "kubernetes", "--namespace", kube_namespace, "--adopt", "--yes")
    try:
        assert "No changes" in repo.ok("plan").out
        held = [*placed(repo, "a"), *placed(repo, "b")]
        assert sorted(held) == [f"k0000:{COUNTED}:{number}" for number in range(3)]
    finally:
        repo.ok("destroy", "--yes")


def test_who_is_turned_away_by_the_kubelet_is_placed_elsewhere(
    on_simulated_nodes: Repo, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    """What others have taken by then they keep: the session does not wait for it where it was."""
    repo = on_simulated_nodes
    kubernetes.simulate([counts("k0000", 4), counts("k0001", 2)])
    repo.write("lab.yaml", cluster_documents(kube_namespace, ["k0000", "k0001"]))
    want(repo, "two", WORK.format(gpus="cuda.device: 2"))
    until(lambda: phase(repo, "two")["phase"] == "RUNNING", "there is room")
    repo.ok("apply", "--yes")  # Writes it down.
    assert {device.split(":")[0] for device in placed(repo, "two")} == {"k0000"}
    pods = f"{CORE}/namespaces/{kube_namespace}/pods"
    (pod,) = kubernetes.api.get(pods)["items"]
    ended = {
        "phase": "Failed", "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu",
        "containerStatuses": None,
    }  # fmt: skip
    kubernetes.api.patch(f"{pods}/{pod['metadata']['name']}/status", {"status": ended})
    guest(kubernetes, kube_namespace, "k0000", 4)
    said = squeezed(repo.ok("plan").out)
    assert "UnexpectedAdmissionError: Allocate failed" in said
    assert f"of k0000 is {kube_namespace}/guest's now" in said
    until(lambda: phase(repo, "two")["phase"] == "RUNNING", "it is placed elsewhere")
    assert {device.split(":")[0] for device in placed(repo, "two")} == {"k0001"}
