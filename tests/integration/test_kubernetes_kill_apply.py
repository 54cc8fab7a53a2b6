"""`apply` on a real Kubernetes, killed with SIGKILL at random moments: the next run makes it right.

What runs is asked of the API server without bai's help. `BAI_KUBERNETES_KILLS`: how many kills (5; the whole
proof takes 200), `BAI_KILL_SEED`: which.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.applying import Applier
from tests.integration.killing import Ground, Running, killed_anywhere, session_of
from tests.integration.kubernetes_documents import cluster_documents
from tests.lab.kubernetes.api import CORE, RESOURCE
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.stores import NAME, environment, owner_file
from tests.waiting import soon

pytestmark = [pytest.mark.xdist_group("kubernetes-lost"), pytest.mark.slow]
KILLS = int(os.environ.get("BAI_KUBERNETES_KILLS", "5"))
SEED = int(os.environ.get("BAI_KILL_SEED", "1"))
DOMAIN = """---
apiVersion: bai/v1
kind: Domain
metadata: {name: d}
spec: {}
"""


class Cluster(Ground):
    """The directory, the applier, and what really runs in the namespace."""

    def __init__(self, directory: Path, kubernetes: Kubernetes, namespace: str) -> None:
        self.kubernetes = kubernetes
        self.inside = f"{CORE}/namespaces/{namespace}"
        self.claims_at = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        directory.mkdir()
        os.environ["KUBECONFIG"] = str(kubernetes.kubeconfig)
        os.environ["BAI_SECRET_STORES"] = str(owner_file(directory.parent / NAME, environment("HOME")))
        (directory / "lab.yaml").write_text(cluster_documents(namespace, project="domain: d") + DOMAIN)
        super().__init__(directory, Applier(directory))

    def session(self, name: str, version: int, size: int) -> dict[str, Any]:
        spec = {
            "image": "bai-lab:1",
            "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"],
            "resources": {"cpu": "100m", "memory": "16MiB", "cuda.device": 1},
            "env": {"NAME": name, "VERSION": str(version)},
            "secrets": [{"env": "PASSWORD", "from": "env/HOME"}] if version == 2 else [],
        }
        return session_of(name, size, spec)

    def items(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.kubernetes.api.get(path)["items"]
        return found

    def pods(self) -> list[dict[str, Any]]:
        return self.items(f"{self.inside}/pods")

    def running(self) -> Running:
        found: Running = Counter()
        for pod in self.pods():
            env = {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0]["env"]}
            phase = pod["status"]["phase"]
            found[
                env["NAME"], env["BACKENDAI_CLUSTER_HOST"], env["VERSION"] if phase == "Running" else phase
            ] += 1
        return found

    def left(self) -> list[str]:
        """Everything of bai's beside pods."""
        found = [f"claim {one['metadata']['name']}" for one in self.items(self.claims_at)]
        for kind in ("secrets", "configmaps", "services"):
            for one in self.items(f"{self.inside}/{kind}"):
                if "app.kubernetes.io/managed-by" in one["metadata"].get("labels", {}):
                    found.append(f"{kind} {one['metadata']['name']}")
        return found

    def devices(self) -> Counter[tuple[str, str]]:
        """(pool, device) → how many claims have it."""
        found: Counter[tuple[str, str]] = Counter()
        for claim in self.items(self.claims_at):
            allocation = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
            found.update((one["pool"], one["device"]) for one in allocation["devices"]["results"])
        return found

    def close(self) -> None:
        self.applier.close()
        del os.environ["BAI_SECRET_STORES"], os.environ["KUBECONFIG"]


@pytest.fixture(scope="module")
def cluster(kubernetes_lab: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kubernetes_lab.pair()
    with kubernetes_lab.namespace() as namespace:
        made = Cluster(tmp_path_factory.mktemp("kill") / "repository", kubernetes_lab, namespace)
        try:
            yield made
        finally:
            made.close()


def test_killed_anywhere_the_next_run_ends_with_exactly_what_is_wanted(cluster: Cluster) -> None:
    killed_anywhere(cluster, random.Random(SEED), KILLS)
    assert max(cluster.devices().values(), default=0) <= 1
    assert sum(cluster.devices().values()) == len(cluster.pods())


def test_a_pod_deleted_by_hand_comes_back(cluster: Cluster) -> None:
    wanted = cluster.want({"s0": (1, 1), "s1": (1, 2)})
    assert not cluster.apply()["error"]
    assert soon(partial(cluster.runs, wanted)), dict(cluster.running())
    victim = cluster.pods()[0]["metadata"]["name"]
    cluster.kubernetes.api.delete(f"{cluster.inside}/pods/{victim}")
    cluster.kubernetes.api.gone(f"{cluster.inside}/pods/{victim}", victim)
    again = cluster.apply()
    assert again["changes"] == 1 and not again["error"], again
    assert soon(partial(cluster.runs, wanted)), dict(cluster.running())
    assert cluster.apply()["changes"] == 0


def test_in_the_end_nothing_is_left(cluster: Cluster) -> None:
    cluster.want({})
    assert not cluster.apply()["error"]
    assert cluster.apply()["changes"] == 0
    assert cluster.pods() == []
    assert soon(lambda: not cluster.left()), cluster.left()
