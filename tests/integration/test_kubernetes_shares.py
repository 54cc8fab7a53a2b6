"""Parts of GPUs on Kubernetes as its users have them, and applies that are killed while they are given."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.bai.conftest import Repo
from tests.integration.killing import killed_anywhere, session_of
from tests.integration.kubernetes_documents import cluster_documents
from tests.integration.test_kubernetes_cluster import make, phase, squeezed, until_it_says, want
from tests.integration.test_kubernetes_kill_apply import DOMAIN, Cluster
from tests.lab.kubernetes.gpus import gpu_uuid
from tests.lab.kubernetes.lab import Kubernetes
from tests.waiting import soon

__all__ = ["make"]
pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
KILLS = int(os.environ.get("BAI_KUBERNETES_SHARE_KILLS", "4"))
SEED = int(os.environ.get("BAI_KILL_SEED", "1"))
HALF = """
  command: [sh, -c, "echo had $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE $NVIDIA_VISIBLE_DEVICES; sleep 1000"]
  resources: {cpu: 100m, memory: 16MiB, cuda.shares: 0.5}
"""
WHOLE = """
  command: [sleep, "1000"]
  resources: {cpu: 100m, memory: 16MiB, cuda.device: COUNT}
"""
Make = Callable[..., Repo]


def with_parts(documents: str, rule: str) -> str:
    return documents.replace("allowRoot: true", f"allowRoot: true, fractional: {{{rule}}}")


def test_two_share_a_gpu_and_the_third_waits(make: Make, kubernetes: Kubernetes) -> None:
    kubernetes.pair()
    repo = make("n1")
    file = repo.root / "lab.yaml"
    rule = "enforcement: mps, largest: 0.5"
    without = with_parts(file.read_text(), rule)
    file.write_text(without.replace("kubernetes: {", "kubernetes: {mps: true, "))
    want(repo, "most", WHOLE.replace("COUNT", "7"))
    for name in ("one", "two"):
        want(repo, name, HALF)
    planned = squeezed(repo.ok("plan").out)
    assert "MPS daemon of NVIDIA's DRA driver, which bai has not tried" in planned, planned
    assert "GPU fraction is not enforced" not in planned
    assert "group all: 1 of 1 nodes enforce mps" in squeezed(repo("doctor").out)
    repo.ok("apply", "--yes")
    lines = {until_it_says(repo, name, "had").splitlines()[-1] for name in ("one", "two")}
    (line,) = lines
    assert line.split()[:2] == ["had", "50"] and line.split()[2] in {gpu_uuid("n1", n) for n in range(8)}

    want(repo, "third", HALF)
    want(repo, "whole", WHOLE.replace("COUNT", "1"))
    waits = squeezed(repo.ok("plan").out)
    assert "p/third in group all" in waits and "p/whole in group all" in waits, waits
    assert phase(repo, "third")["phase"] == "PENDING" == phase(repo, "whole")["phase"]
    why = squeezed(repo.ok("explain", "third").out)
    assert "needs 0.5 of a GPU" in why and "0.5 GPU short: 0 GPU free of 1 GPU p/most, p/one, p/two" in why
    (repo.root / "one.yaml").unlink()
    repo.ok("apply", "--yes")
    assert until_it_says(repo, "third", "had").splitlines()[-1] == line
    assert phase(repo, "whole")["phase"] == "PENDING"


class Shared(Cluster):
    """Sessions have parts of GPUs: each claim is used by several pods."""

    def session(self, name: str, version: int, size: int) -> dict[str, Any]:
        found = super().session(name, version, size)["spec"]
        return session_of(
            name, size, {**found, "resources": {"cpu": "100m", "memory": "16MiB", "cuda.shares": 0.3}}
        )

    def used(self) -> int:
        """Pods that have a part, by all claims."""
        return sum(len(claim["status"].get("reservedFor") or ()) for claim in self.items(self.claims_at))


@pytest.fixture(scope="module")
def cluster(kubernetes_lab: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    kubernetes_lab.pair()
    with kubernetes_lab.namespace() as namespace:
        made = Shared(tmp_path_factory.mktemp("kill") / "repository", kubernetes_lab, namespace)
        documents = cluster_documents(namespace, options="mps: true", project="domain: d") + DOMAIN
        (made.directory / "lab.yaml").write_text(with_parts(documents, "enforcement: mps"))
        try:
            yield made
        finally:
            made.close()


def test_killed_anywhere_no_gpu_has_two_claims_and_no_pod_two_parts(cluster: Shared) -> None:
    killed_anywhere(cluster, random.Random(SEED), KILLS)
    assert max(cluster.devices().values(), default=0) <= 1
    assert soon(lambda: cluster.used() == len(cluster.pods())), (cluster.used(), len(cluster.pods()))


def test_in_the_end_nothing_is_left(cluster: Shared) -> None:
    cluster.want({})
    assert not cluster.apply()["error"]
    assert cluster.apply()["changes"] == 0
    assert cluster.pods() == []
    assert soon(lambda: not cluster.left()), cluster.left()
