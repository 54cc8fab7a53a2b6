"""The loop on a real Kubernetes that is not as it was: what is repaired, and what is told."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.kubernetes.observe.offered import WITHDRAWN
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.controller.stages import NoStageListener, Stage
from reconciler.workspace.workspace import Workspace
from tests.integration.kubernetes_documents import cluster_documents
from tests.lab.kubernetes.api import CORE, RESOURCE
from tests.lab.kubernetes.lab import Kubernetes
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes-lost"), pytest.mark.slow]
UNTIL_TOLD = "until [ -e told ]; do sleep 0.5; done"
RUNS = "trap 'exit 0' TERM; sleep 1000000 & wait"


class Site:
    """A repository, the loop over it, what it has said, and what the cluster holds, asked without it."""

    def __init__(self, lab: Kubernetes, namespace: str, folder: Path) -> None:
        folder.mkdir()
        self.lab, self.namespace, self.folder = lab, namespace, folder
        self.pods_at = f"{CORE}/namespaces/{namespace}/pods"
        self.claims_at = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        (folder / "lab.yaml").write_text(cluster_documents(namespace))
        self.said: list[str] = []
        workspace = Workspace.open(folder)
        self.loop = Loop(workspace, LoopOptions("the test", 1), log=self.said.append)

    def want(self, name: str, gpus: int, *, node: str = "n0", script: str = RUNS, **more: Any) -> None:
        spec = {
            "image": "bai-lab:1",
            "command": ["sh", "-c", script],
            "resources": {"cpu": "100m", "memory": "16MiB", "cuda.device": gpus},
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
        """Pass after pass, until these sessions run, the loop has seen it, and no other pod is there."""

        def there() -> bool:
            good = self.loop.once()
            twice = {device for device, count in self.given().items() if count > 1}
            assert not twice, f"given twice: {twice}"
            assert not any("creation was not finished" in line for line in self.said), self.said
            alive = {name for name, pod in self.pods().items() if pod["status"]["phase"] == "Running"}
            seen = good and all(self.phase(name) == "RUNNING" for name in sessions)
            return seen and sorted(self.running()) == sorted(sessions) and len(alive) == len(sessions)

        # A kubelet that begins anew gives up what ended meanwhile after a minute (pkg/kubelet/cm/dra), and
        # its drivers publish nothing for a while.
        until(
            there, lambda: f"{sessions} run: {sorted(self.pods())}, said {list(dict.fromkeys(self.said))}",
            seconds=600, pause=1,
        )  # fmt: skip

    def was_made_again(self, name: str) -> bool:
        """Whether it was told, with why: at once, in a later try where the first failed, or queued before, as
        its node's driver publishes nothing for a while after its kubelet began anew."""
        begins = tuple(
            f"{verb} Session/p/{name}: {cause}"
            for verb in ("updated", "queued", "created")
            for cause in ("main1 ", "it could not be created before")
        )
        return any(line.startswith(begins) for line in self.said)

    def close(self) -> None:
        self.lab.mend()
        for each in self.folder.glob("*.yaml"):
            if each.name != "lab.yaml":
                each.unlink()
        try:
            self.settled()
            until(lambda: not self.given(), lambda: f"no claim is left: {self.given()}", pause=0.5)
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


def tell_it_to_end(site: Site, session: str) -> None:
    (kernel,) = (name for name in site.pods() if name.startswith(f"{session}-"))
    site.lab.kubectl("-n", site.namespace, "exec", kernel, "--", "touch", "/home/work/told")


def test_an_older_state_of_etcd_is_brought_to_what_is_wanted(site: Site, tmp_path: Path) -> None:
    site.want("kept", 3)
    site.want("ended", 5)
    site.want("batch", 2, node="n1", script=UNTIL_TOLD, type="batch")
    site.settled("kept", "ended", "batch")
    before = site.running()
    site.lab.control_plane.snapshot(tmp_path / "etcd")

    tell_it_to_end(site, "batch")

    def batch_has_ended() -> bool:
        return site.loop.once() and site.phase("batch") == "TERMINATED"

    until(batch_has_ended, "the batch session has ended", pause=0.5)
    site.want_no_more("ended")
    site.want("made", 5)
    site.settled("kept", "made")
    devices = site.given()

    site.said.clear()
    site.lab.restore(tmp_path / "etcd")
    assert {"kept", "ended", "batch"} <= {name.partition("-")[0] for name in site.pods()}
    site.settled("kept", "made")
    assert site.running()["kept"] == before["kept"], "it was not touched"
    assert site.phase("batch") == "TERMINATED"
    assert site.given() == devices
    for line in (
        "Session/p/ended new -> RUNNING: found by its labels",
        "deleted Session/p/ended: no longer in the repository",
    ):
        assert line in site.said, "\n".join(dict.fromkeys(site.said))
    assert site.was_made_again("made"), "\n".join(dict.fromkeys(site.said))


class Outage(NoStageListener):
    """The API server goes as soon as a pass of the loop is at this stage."""

    def __init__(self, lab: Kubernetes, at: Stage) -> None:
        self.lab, self.at = lab, at

    @contextlib.contextmanager
    def stage(self, stage: Stage, cluster: str) -> Iterator[None]:
        if stage == self.at:
            self.lab.control_plane.stop_api_server()
        yield


@pytest.mark.parametrize("at", ["plan", "apply"])
def test_an_api_server_that_goes_in_the_middle_of_a_pass_costs_no_session(site: Site, at: Stage) -> None:
    site.want("kept", 3)
    site.settled("kept")
    before = site.running()
    site.want("late", 2)
    site.said.clear()
    site.loop.stages = Outage(site.lab, at)
    assert not site.loop.once()
    site.loop.stages = NoStageListener()
    outage = "The plan is stale: not everything can be observed any more: "
    assert any(outage in line and "API server" in line for line in site.said), site.said
    assert not any("Session/" in line for line in site.said), site.said
    for _ in range(3):
        assert not site.loop.once()
        assert site.phase("kept") == "RUNNING"
    said = [line for line in site.said if line.startswith("not everything could be observed: ")]
    assert len(said) == 1 and "API server" in said[0], site.said
    assert not any("Session/p/kept" in line for line in site.said), site.said
    site.lab.mend()
    site.settled("kept", "late")
    # At once, or queued before, where its node was not heard of for so long that it is not ready at first.
    assert any(line.startswith("created Session/p/late: ") for line in site.said), site.said
    assert site.running()["kept"] == before["kept"]


def test_what_others_take_away_is_made_again_and_a_kubelet_that_restarts_is_nothing(site: Site) -> None:
    site.want("evicted", 3)
    site.want("deleted", 2)
    site.want("kept", 3, node="n1")
    site.settled("evicted", "deleted", "kept")
    before, pods = site.running(), site.pods()
    site.said.clear()
    (evicted,) = (name for name in pods if name.startswith("evicted-"))
    (deleted,) = (name for name in pods if name.startswith("deleted-"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted}}
    site.lab.api.create(f"{site.pods_at}/{evicted}/eviction", eviction)
    site.lab.api.delete(f"{site.pods_at}/{deleted}?gracePeriodSeconds=1")
    site.lab.restart_kubelets()
    site.settled("evicted", "deleted", "kept")  # The loop looks on while they end, and end well.
    now = site.running()
    assert now["kept"] == before["kept"] and now["evicted"] != before["evicted"]
    assert all(map(site.was_made_again, ("evicted", "deleted"))), site.said
    assert not any("Session/p/kept" in line for line in site.said), site.said


def test_what_a_kubelet_withdraws_is_nobodys_until_it_is_published_again(site: Site) -> None:
    site.want("kept", 3)
    site.settled("kept")
    before, node = site.running(), site.lab.nodes["n0"]
    slices = f"{RESOURCE}/resourceslices?fieldSelector=spec.nodeName=n0"
    node.driver.kill()
    node.restart(node.kubelet)
    until(lambda: not site.lab.api.get(slices)["items"], "the kubelet has withdrawn what was published")
    site.said.clear()
    site.want("late", 2)
    site.want("plain", 0, resources={"cpu": "100m", "memory": "16MiB"})

    def runs() -> bool:
        site.loop.once()
        return "plain" in site.running() and site.phase("kept") == "RUNNING"

    until(runs, lambda: f"what needs no GPU runs there: {site.said}", pause=0.5)
    plan = Workspace.open(site.folder).plan()
    assert not [each.id for each in plan.changes], "all is as it can be"
    (why,) = (one.message for wait in plan.waits for one in wait.reasons if one.code == "unhealthy")
    assert why == f"all 8 GPUs of n0 are out of placement: {WITHDRAWN}"
    assert "late" not in site.running() and not any("late: it could not" in line for line in site.said)

    node.start_daemon(node.driver)
    site.settled("kept", "plain", "late")
    assert site.running()["kept"] == before["kept"]
    assert not any("Session/p/kept" in line for line in site.said), site.said
    assert any(line.startswith("created Session/p/late: ") for line in site.said), site.said
    assert not any("could not be created" in line for line in site.said), site.said


def test_a_node_that_goes_for_good_and_comes_back_as_another_runs_its_sessions_anew(site: Site) -> None:
    site.want("kept", 3)
    site.want("moved", 2, node="n1")
    site.settled("kept", "moved")
    before = site.running()
    site.lab.nodes["n1"].kill()
    site.lab.api.delete(f"{CORE}/nodes/n1")
    site.said.clear()

    def forgotten() -> bool:
        site.loop.once()
        return not any(name.startswith("moved-") for name in site.pods())

    # The controller looks each 20 s, and waits for 40 before it believes that a node is gone (podgc).
    until(
        forgotten, lambda: f"the cluster takes its pods away: {sorted(site.pods())}", seconds=300, pause=0.5
    )
    assert any(line.startswith("no contact with n1: the cluster has no node") for line in site.said), (
        site.said
    )
    site.lab.pair()
    site.settled("kept", "moved")
    now = site.running()
    assert now["kept"] == before["kept"] and now["moved"] != before["moved"]
