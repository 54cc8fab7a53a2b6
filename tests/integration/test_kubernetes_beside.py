"""The cluster's own scheduler at work on the same nodes, which no taint keeps it from."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from providers.kubernetes.observe import ledger
from tests.bai.conftest import Repo
from tests.integration.test_kubernetes_cluster import want
from tests.lab.kubernetes.api import CORE, RESOURCE
from tests.lab.kubernetes.gpus import DRIVER
from tests.lab.kubernetes.lab import Kubernetes
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
SESSIONS, GUESTS, CORES = 6, 6, 96
TWO_GPUS = """
  command: [sleep, "1000"]
  resources: {cpu: 15, memory: 64MiB, cuda.device: 2}
"""
APPS = "/apis/apps/v1"


def deployment(namespace: str) -> dict[str, Any]:
    """Pods of one GPU and fifteen cores each, with a claim of a template, placed by the default scheduler."""
    asked = {"cpu": "15", "memory": "64Mi"}
    main = {
        "name": "main", "image": "none",
        "resources": {"requests": asked, "limits": asked, "claims": [{"name": "gpu"}]},
    }  # fmt: skip
    labels = {"app": "guest"}
    spec = {
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"type": "kwok"},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        "containers": [main],
    }
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "guest", "namespace": namespace},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }  # fmt: skip


def scale(lab: Kubernetes, namespace: str, replicas: int) -> None:
    lab.api.patch(f"{APPS}/namespaces/{namespace}/deployments/guest", {"spec": {"replicas": replicas}})


def held(lab: Kubernetes) -> dict[str, list[str]]:
    """Device → namespaces of the claims that give it to somebody."""
    found: dict[str, list[str]] = {}
    for claim in lab.api.get(f"{RESOURCE}/resourceclaims")["items"]:
        allocation = claim.get("status", {}).get("allocation") or {}
        for result in allocation.get("devices", {}).get("results", ()):
            device = f"{result['pool']}/{result['device']}"
            found.setdefault(device, []).append(claim["metadata"]["namespace"])
    return found


def cores(lab: Kubernetes) -> Counter[str]:
    """Node → cores that pods with a claim ask for there."""
    found: Counter[str] = Counter()
    for pod in lab.api.get(f"{CORE}/pods")["items"]:
        node = pod["spec"].get("nodeName")
        if node and pod["spec"].get("resourceClaims") and pod["status"].get("phase") != "Succeeded":
            found[node] += int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    return found


def sessions(repo: Repo) -> dict[str, str]:
    """Identity → phase."""
    found = repo.ok("get", "-o", "json").json["items"]
    return {one["id"]: one["phase"] for one in found if one["kind"] == "Session"}


def test_the_default_scheduler_grows_a_deployment_while_bai_places(
    on_simulated_nodes: Repo, kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = on_simulated_nodes
    # A scheduler that other programs leave no core to may take longer to write what it has chosen.
    monkeypatch.setattr(ledger, "SETTLE", 20.0)
    with kubernetes.namespace() as theirs:
        request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
        template = {"metadata": {"name": "gpu"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        kubernetes.api.create(f"{RESOURCE}/namespaces/{theirs}/resourceclaimtemplates", template)
        kubernetes.api.create(f"{APPS}/namespaces/{theirs}/deployments", deployment(theirs))
        for number in range(SESSIONS):
            want(repo, f"s{number}", TWO_GPUS)
        stop = threading.Event()

        def grow() -> None:
            for replicas in range(1, GUESTS + 1):
                scale(kubernetes, theirs, replicas)
                stop.wait(0.7)

        grower = threading.Thread(target=grow)
        grower.start()
        try:
            applied(repo, lambda: not grower.is_alive())
        finally:
            stop.set()
            grower.join()
        # On a machine that is overloaded the scheduler itself gives a device to two of its own pods.
        given = {device: by for device, by in held(kubernetes).items() if set(by) != {theirs}}
        assert all(len(by) == 1 for by in given.values()), (given, theirs, repo("plan").out)
        assert max(cores(kubernetes).values()) <= CORES
        applied(repo, lambda: sum(map(len, held(kubernetes).values())) >= 14)
        applied(repo, lambda: Counter(sessions(repo).values()) >= Counter(RUNNING=4))
        phases = sessions(repo)
        assert len(phases) == SESSIONS
        for name in (name for name, phase in phases.items() if phase == "PENDING"):
            assert f"{theirs}/guest" in repo.ok("explain", name).out
        scale(kubernetes, theirs, 0)
        applied(repo, lambda: set(sessions(repo).values()) == {"RUNNING"})


def applied(repo: Repo, done: Callable[[], bool]) -> None:
    """Passes, which may fail where somebody was quicker, until it is so."""

    def passed() -> bool:
        repo("apply", "--yes")
        return done()

    until(passed, "passes come to an end")
