"""The loop on a real Kubernetes that is not as it was: what is repaired, and what is told."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.workspace.workspace import Workspace
from tests.lab.kubernetes.api import CORE, RESOURCE
from tests.lab.kubernetes.lab import Kubernetes
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]
CLUSTER = """
apiVersion: bai/v1
kind: Cluster
metadata: {{name: lab}}
spec: {{provider: kubernetes, kubernetes: {{namespace: {namespace}}}}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
spec: {{}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: p}}
spec: {{}}
---
apiVersion: bai/v1
kind: Node
metadata: {{name: n0}}
spec: {{resourceGroup: all}}
---
apiVersion: bai/v1
kind: Node
metadata: {{name: n1}}
spec: {{resourceGroup: all}}
"""
RUNS = "trap exit TERM; while :; do sleep 0.1; done"


class Site:
    """A repository, the loop over it, what it has said, and what the cluster holds, asked without it."""

    def __init__(self, lab: Kubernetes, namespace: str, folder: Path) -> None:
        folder.mkdir()
        self.lab, self.folder = lab, folder
        self.pods_at = f"{CORE}/namespaces/{namespace}/pods"
        self.claims_at = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        (folder / "lab.yaml").write_text(CLUSTER.format(namespace=namespace))
        self.said: list[str] = []
        workspace = Workspace.open(folder)
        self.loop = Loop(workspace, LoopOptions("the test", 1), log=self.said.append)

    def want(self, name: str, gpus: int, *, node: str = "n0", script: str = RUNS, **more: Any) -> None:
        spec = {
            "image": "bai-lab:1",
            "command": ["sh", "-c", script],
            "resources": {"cpu": "10m", "memory": "16MiB", "cuda.device": gpus},
            "placement": {"nodes": [node]},
            "stop": {"grace": "2s"},
            **more,
        }
        about = {"name": name, "project": "p"}
        document = {"apiVersion": "bai/v1", "kind": "Session", "metadata": about, "spec": spec}
        (self.folder / f"{name}.yaml").write_text(json.dumps(document))

    def want_no_more(self, *names: str) -> None:
        for name in names:
            (self.folder / f"{name}.yaml").unlink()

    def pods(self) -> dict[str, dict[str, Any]]:
        """By name, those that are not going."""
        found = self.lab.api.get(self.pods_at)["items"]
        return {one["metadata"]["name"]: one for one in found if "deletionTimestamp" not in one["metadata"]}

    def running(self) -> dict[str, str]:
        """Session → when its only container began."""
        return {
            name.partition("-")[0]: status["state"]["running"]["startedAt"]
            for name, pod in self.pods().items()
            for status in pod["status"].get("containerStatuses", ())
            if "running" in status["state"]
        }

    def given(self) -> Counter[tuple[str, str]]:
        """(node, device) → how many claims have it."""
        found: Counter[tuple[str, str]] = Counter()
        for claim in self.lab.api.get(self.claims_at)["items"]:
            allocation = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
            found.update((one["pool"], one["device"]) for one in allocation["devices"]["results"])
        return found

    def phase(self, name: str) -> str:
        store = self.loop.workspace.store
        recorded = store.recorded("lab").get(f"Session/p/{name}")
        return recorded.phase if recorded is not None else ""

    def settled(self, *sessions: str) -> None:
        """Pass after pass, until these sessions run and no other pod is there."""

        def there() -> bool:
            good = self.loop.once()
            twice = {device for device, count in self.given().items() if count > 1}
            assert not twice, f"given twice: {twice}"
            alive = {name for name, pod in self.pods().items() if pod["status"]["phase"] == "Running"}
            return good and sorted(self.running()) == sorted(sessions) and len(alive) == len(sessions)

        until(there, lambda: f"{sessions} run: {sorted(self.pods())}, said {self.said[-10:]}", pause=0.2)

    def close(self) -> None:
        for each in self.folder.glob("*.yaml"):
            if each.name != "lab.yaml":
                each.unlink()
        try:
            self.settled()
            until(lambda: not self.given(), lambda: f"no claim is left: {self.given()}", pause=0.2)
        finally:
            self.loop.workspace.close()


@pytest.fixture
def site(
    kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    kubernetes.pair()
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig))
    found = Site(kubernetes, kube_namespace, tmp_path / "repository")
    yield found
    found.close()


def restart_kubelets(lab: Kubernetes) -> None:
    """As administrators do after a restore: they go on from what they have seen otherwise."""
    for name in ("n0", "n1"):
        node = lab.nodes[name]
        node.kubelet.kill()
        node.start_daemon(node.kubelet)


def test_an_older_state_of_etcd_is_brought_to_what_is_wanted(site: Site, tmp_path: Path) -> None:
    site.want("kept", 3)
    site.want("ended", 5)
    site.want("batch", 2, node="n1", script="sleep 5; echo done", type="batch")
    site.settled("kept", "ended", "batch")
    before = site.running()
    site.lab.control_plane.snapshot(tmp_path / "etcd")

    def batch_has_ended() -> bool:
        return site.loop.once() and site.phase("batch") == "TERMINATED"

    until(batch_has_ended, "the batch session has ended", pause=0.2)
    site.want_no_more("ended")
    site.want("made", 5)
    site.settled("kept", "made")
    devices = site.given()

    site.said.clear()
    site.lab.control_plane.restore(tmp_path / "etcd")
    restart_kubelets(site.lab)
    assert {"kept", "ended", "batch"} <= {name.partition("-")[0] for name in site.pods()}
    site.settled("kept", "made")
    assert site.running()["kept"] == before["kept"], "it was not touched"
    assert site.phase("batch") == "TERMINATED"
    assert site.given() == devices
    assert any("Session/p/made RUNNING ->" in line for line in site.said), "\n".join(site.said)
