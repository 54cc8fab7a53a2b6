"""Kubernetes as its users have it: a repository, the command, and what pods say of themselves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bai.conftest import Repo
from tests.integration.kubernetes_documents import cluster_documents
from tests.lab.kubernetes.api import CORE
from tests.lab.kubernetes.gpus import gpu_uuid
from tests.lab.kubernetes.lab import Kubernetes
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
SESSION = """apiVersion: bai/v1
kind: Session
metadata: {{name: {name}, project: p}}
spec:
  image: bai-lab:1
  stop: {{grace: 1s}}
"""
GANG = """
  cluster: {mode: multi-node, roles: {main: 1, sub: 1}}
  resources: {cpu: 100m, memory: 16MiB, cuda.device: 5}
  command:
    - sh
    - -c
    - |
      [ "$BACKENDAI_CLUSTER_HOST" = main1 ] && peer=sub1 || peer=main1
      while :; do echo "hello from $(hostname)" | nc -l -p 9000; done &
      until said=$(nc -w 5 $peer 9000 </dev/null) && [ -n "$said" ]; do sleep 0.2; done
      echo "$said with $NVIDIA_VISIBLE_DEVICES"
      wait
"""
HOLDS = """
  command: [sleep, "1000"]
  resources: {{{resources}}}
"""
Make = Callable[..., Repo]


@pytest.fixture
def make(kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path) -> Iterator[Make]:
    """A repository of these nodes of the lab, in a namespace of its own; in the end it runs nothing."""
    made: list[Repo] = []

    def new(*nodes: str) -> Repo:
        (tmp_path / "repository").mkdir()
        environment = {"KUBECONFIG": str(kubernetes.kubeconfig), "COLUMNS": "200", "NO_COLOR": "1"}
        repo = Repo(tmp_path / "repository", {"XDG_STATE_HOME": str(tmp_path / "state"), **environment})
        documents = cluster_documents(kube_namespace, nodes)
        repo.write("lab.yaml", documents)
        made.append(repo)
        return repo

    yield new
    for repo in made:
        repo.ok("destroy", "--yes")
    left = kubernetes.api.get(f"{CORE}/namespaces/{kube_namespace}/pods")["items"]
    assert not left, [one["metadata"]["name"] for one in left]


def want(repo: Repo, name: str, spec: str) -> None:
    repo.write(f"{name}.yaml", SESSION.format(name=name) + spec.lstrip("\n"))


def phase(repo: Repo, name: str) -> dict[str, Any]:
    """How a session is, after a pass that looks at the cluster."""
    repo.ok("apply", "--yes")
    (found,) = repo.ok("get", f"session/{name}", "-o", "json").json["items"]
    return dict(found)


def until_it_says(repo: Repo, name: str, word: str) -> str:
    """A container's log as soon as this word is in it."""

    def log() -> str:
        return repo("logs", name).out

    until(lambda: word in log(), lambda: f"{name} says {word}: {log()}", pause=0.2)
    return log()


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_a_batch_session_and_a_gang(make: Make, kubernetes: Kubernetes) -> None:
    kubernetes.pair()
    repo = make("n0", "n1")
    gpus = {node: {gpu_uuid(node, number) for number in range(8)} for node in ("n0", "n1")}
    want(
        repo,
        "train",
        '  type: batch\n  command: [sh, -c, "echo gpus $NVIDIA_VISIBLE_DEVICES"]\n'
        "  resources: {cpu: 100m, memory: 16MiB, cuda.device: 2}\n",
    )
    want(repo, "gang", GANG)
    planned = squeezed(repo.ok("plan").out)
    assert "names of its own among pods" in planned and "overlay" not in planned
    assert "NUMA nodes is not enforced" not in planned and "CPU pinning" not in planned
    repo.ok("apply", "--yes")

    (said,) = until_it_says(repo, "train", "gpus").splitlines()
    had = said.split()[1].split(",")
    assert len(set(had)) == 2 and any(set(had) <= each for each in gpus.values())
    seen = {}
    for kernel, peer in (("main1", "sub1"), ("sub1", "main1")):
        line = until_it_says(repo, f"gang/{kernel}", f"hello from {peer}").splitlines()[-1]
        assert line.startswith(f"hello from {peer} with "), line
        seen[kernel] = set(line.split()[-1].split(","))
        assert len(seen[kernel]) == 5
    assert any(
        seen["main1"] <= gpus[one] and seen["sub1"] <= gpus[two] for one, two in (("n0", "n1"), ("n1", "n0"))
    )
    assert not (seen["main1"] | seen["sub1"]) & set(had)

    until(lambda: phase(repo, "train")["phase"] == "TERMINATED", "the batch session has ended", pause=0.2)
    assert "success" in str(phase(repo, "train"))
    assert "No changes." in repo.ok("plan").out
    assert "2 nodes ready" in repo("doctor").out
    assert "failed" not in repo.ok("nodes", "check").out
    assert "network the pods' own" in squeezed(repo.ok("describe", "session/gang").out)


def test_what_the_cluster_keeps_is_not_given_out(
    make: Make, kubernetes: Kubernetes, kube_namespace: str
) -> None:
    """A node that is cordoned takes nothing new, and memory that others ask for is theirs."""
    kubernetes.pair()
    repo = make("n0", "n1")
    memory = kubernetes.api.get(f"{CORE}/nodes/n1")["status"]["allocatable"]["memory"]
    asked = int(memory.removesuffix("Ki")) // 1024 - 100
    container = {
        "name": "main", "image": "bai-lab:1", "command": ["sleep", "1000"],
        "resources": {"requests": {"memory": f"{asked}Mi"}},
    }  # fmt: skip
    guest = {
        "metadata": {"name": "guest"},
        "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    kubernetes.pod(kube_namespace, guest)
    node = f"{CORE}/nodes/n0"
    want(repo, "late", HOLDS.format(resources="cpu: 100m, memory: 1GiB"))
    try:
        kubernetes.api.patch(node, {"spec": {"unschedulable": True}})
        planned = squeezed(repo.ok("plan").out)
        assert "? Session/p/late" in planned
        assert f"{kube_namespace}/guest" in planned, planned
        explained = squeezed(repo.ok("explain", "session/late").out)
        assert "is cordoned (unschedulable in the cluster)" in explained
        assert "short: " in explained and f"{kube_namespace}/guest" in explained
        repo.ok("apply", "--yes")
        kubernetes.api.delete(f"{CORE}/namespaces/{kube_namespace}/pods/guest")
        kubernetes.api.gone(f"{CORE}/namespaces/{kube_namespace}/pods/guest", "guest")
        repo.ok("apply", "--yes")
        (pod,) = kubernetes.api.get(f"{CORE}/namespaces/{kube_namespace}/pods")["items"]
        assert pod["spec"]["nodeName"] == "n1"
        want(repo, "none", HOLDS.format(resources="cpu: 100m, memory: 16MiB"))
        kubernetes.api.patch(f"{CORE}/nodes/n1", {"spec": {"unschedulable": True}})
        refused = squeezed(repo.ok("plan").out)
        assert "n0 is cordoned: unschedulable in the cluster" in refused
    finally:
        for name in ("n0", "n1"):
            kubernetes.api.patch(f"{CORE}/nodes/{name}", {"spec": {"unschedulable": None}})


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_cores_of_the_plan_are_those_of_the_container(make: Make, kubernetes: Kubernetes) -> None:
    kubernetes.cores()
    repo = make("n2")
    looks = '  command: [sh, -c, "grep Cpus_allowed_list /proc/self/status; exec sleep 1000"]\n'
    for name in ("one", "two"):
        want(repo, name, looks + "  resources: {cpu: 1, memory: 16MiB, cuda.device: 1}\n")
    planned = repo.ok("plan", "--format", "json").json["plan"]
    cores = {
        action["id"].rpartition("/")[2]: action["after"]["placement"]["kernels"][0]["cpus"]
        for action in planned["actions"]
        if action["id"].startswith("Session/")
    }
    assert sorted(map(tuple, cores.values())) == [(0,), (1,)]
    said = repo.ok("plan").out
    assert "CPU pinning" not in said and "binding of memory to NUMA nodes is not enforced" in said
    repo.ok("apply", "--yes")
    for name in ("one", "two"):
        line = until_it_says(repo, name, "Cpus_allowed_list")
        assert line.split() == ["Cpus_allowed_list:", str(cores[name][0])]
    assert "No changes." in repo.ok("plan").out
