"""The lab itself: it is a cluster, its stand-ins do what they stand for, and nothing is left of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cache import LabUnavailable
from tests.lab.docker import IMAGE
from tests.lab.kubernetes.api import CORE, RESOURCE, Api, ApiError
from tests.lab.kubernetes.build import BuildFailed, binaries
from tests.lab.kubernetes.gpus import DRIVER, gpu_uuid
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.node import NodeOptions
from tests.lab.spaces import (
    Spaces,
    _locked,
    _members,
    _processes,
    base,
    groups,
    pid_namespace,
    started,
    sweeping,
)
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")
SERVER = "echo hello from $(hostname) > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"
SEEN = """
echo uuids $NVIDIA_VISIBLE_DEVICES
echo nodes $(ls /dev | grep nvidia)
echo cpus $(awk '/Cpus_allowed_list/ {print $2}' /proc/self/status)
exec sleep 1000
"""
HOLD = """
import os, signal
from tests.lab.kubernetes.lab import Kubernetes
lab = Kubernetes()
lab.pair()
lab.pod("default", {"metadata": {"name": "left"}, "spec": {"nodeName": "n1", "containers": [
    {"name": "main", "image": "bai-lab:1", "command": ["sleep", "1000"]}]}})
print(lab.spaces.prefix, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def a_pod(name: str, node: str, script: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", script]}
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeName": node, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [container], **spec,
        },
    }  # fmt: skip


def seen(lab: Kubernetes, namespace: str, pod: str) -> dict[str, list[str]]:
    """What a pod that runs `SEEN` says of itself."""

    def said() -> dict[str, list[str]] | None:
        lines = [line.split() for line in lab.log(namespace, pod).splitlines()]
        found = {words[0]: words[1:] for words in lines if words}
        return found if "cpus" in found else None

    return until(said, f"{pod} says what it sees")


def test_pods_of_two_nodes_reach_each_other_by_address_and_by_name(
    kubernetes: Kubernetes, kube_namespace: str
) -> None:
    kubernetes.pair()
    service = {
        "metadata": {"name": "gang"},
        "spec": {
            "clusterIP": "None", "selector": {"gang": "one"}, "publishNotReadyAddresses": True,
            "ports": [{"port": 8080}],
        },
    }  # fmt: skip
    kubernetes.api.create(f"{CORE}/namespaces/{kube_namespace}/services", service)
    made = {}
    for node, name in (("n0", "a"), ("n1", "b")):
        body = a_pod(name, node, SERVER, hostname=f"host-{name}", subdomain="gang")
        body["metadata"]["labels"] = {"gang": "one"}
        made[name] = kubernetes.pod(kube_namespace, body)
    for here, there in (("a", "b"), ("b", "a")):
        address = made[there]["status"]["podIP"]
        for host in (address, f"host-{there}.gang", f"host-{there}.gang.{kube_namespace}.svc.cluster.local"):
            assert fetched(kubernetes, kube_namespace, here, host) == f"hello from host-{there}\n"


def fetched(lab: Kubernetes, namespace: str, pod: str, host: str) -> str:
    """What a pod gets from another one, once that serves."""
    words = ("exec", "-n", namespace, pod, "--", "wget", "-qO-", f"http://{host}:8080/index.html")
    return until(lambda: quiet(lab, *words), f"{pod} reaches {host}")


def quiet(lab: Kubernetes, *words: str) -> str:
    """What kubectl prints; nothing where it fails."""
    try:
        return lab.kubectl(*words)
    except AssertionError:
        return ""


def test_a_claim_that_is_placed_by_hand_gets_exactly_that_gpu(
    kubernetes: Kubernetes, kube_namespace: str
) -> None:
    kubernetes.pair()
    for name, node, numbers in (("x", "n1", (6, 1)), ("y", "n1", (2,)), ("z", "n0", (6,))):
        place(kubernetes.api, kube_namespace, name, node, numbers)
    for name, node, numbers in (("x", "n1", (6, 1)), ("y", "n1", (2,)), ("z", "n0", (6,))):
        kubernetes.begun(kube_namespace, name)
        found = seen(kubernetes, kube_namespace, name)
        assert found["uuids"] == [",".join(gpu_uuid(node, number) for number in numbers)]
        assert sorted(found["nodes"]) == [f"nvidia{number}" for number in sorted(numbers)]


def place(api: Api, namespace: str, name: str, node: str, numbers: tuple[int, ...]) -> None:
    """Be the scheduler: a claim, a pod on a node, and the allocation."""
    requests = [
        {"name": f"gpu{number}", "exactly": {"deviceClassName": DRIVER, "count": 1}} for number in numbers
    ]
    path = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
    claim = api.create(path, {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}})
    body = a_pod(name, node, SEEN, resourceClaims=[{"name": "gpus", "resourceClaimName": name}])
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    pod = api.create(f"{CORE}/namespaces/{namespace}/pods", body)
    results = [
        {"request": f"gpu{number}", "driver": DRIVER, "pool": node, "device": f"gpu-{number}"}
        for number in numbers
    ]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    claim["status"] = {
        "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
    }
    api.replace(f"{path}/{name}/status", claim)


def test_the_stand_in_refuses_a_gpu_that_another_claim_holds(
    kubernetes: Kubernetes, kube_namespace: str
) -> None:
    """The API server takes both; the driver, as the real one, does not."""
    kubernetes.pair()
    for name in ("first", "second"):
        place(kubernetes.api, kube_namespace, name, "n1", (3,))
        if name == "first":
            kubernetes.begun(kube_namespace, name)

    def told() -> bool:
        path = f"{CORE}/namespaces/{kube_namespace}/events?fieldSelector=involvedObject.name=second"
        return any("is prepared for claim" in one["message"] for one in kubernetes.api.get(path)["items"])

    until(told, "the second pod waits, with the reason")
    found = kubernetes.api.get(f"{CORE}/namespaces/{kube_namespace}/pods/second")
    assert found["status"]["phase"] == "Pending"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_pod_gets_exactly_the_cpus_of_its_annotation(kubernetes: Kubernetes, kube_namespace: str) -> None:
    kubernetes.pair()
    for cpu in ("1", "0"):
        body = a_pod(f"cpu{cpu}", "n1", SEEN)
        body["metadata"]["annotations"] = {"cpuset.bai.dev/main": cpu}
        kubernetes.pod(kube_namespace, body)
        assert seen(kubernetes, kube_namespace, f"cpu{cpu}")["cpus"] == [cpu]


def test_no_container_starts_while_nobody_pins_cpus(kubernetes: Kubernetes, kube_namespace: str) -> None:
    _, node = kubernetes.pair()
    node.pinner.kill()
    body = a_pod("early", "n1", SEEN)
    body["metadata"]["annotations"] = {"cpuset.bai.dev/main": "0"}
    kubernetes.api.create(f"{CORE}/namespaces/{kube_namespace}/pods", body)

    def refused() -> bool:
        path = f"{CORE}/namespaces/{kube_namespace}/pods/early"
        states = kubernetes.api.get(path)["status"].get("containerStatuses", [])
        return any("required" in one["state"].get("waiting", {}).get("message", "") for one in states)

    until(refused, "the container is refused, with the reason")
    node.start_daemon(node.pinner)
    kubernetes.begun(kube_namespace, "early")
    assert seen(kubernetes, kube_namespace, "early")["cpus"] == ["0"]


def test_programs_of_a_node_can_be_killed_beside_a_pod_that_runs_on(
    kubernetes: Kubernetes, kube_namespace: str
) -> None:
    _, node = kubernetes.pair()
    place(kubernetes.api, kube_namespace, "runs", "n1", (0,))
    before = kubernetes.begun(kube_namespace, "runs")["status"]["containerStatuses"][0]["containerID"]
    for daemon in (node.containerd, node.kubelet, node.driver, node.pinner):
        node.restart(daemon)
    body = a_pod("later", "n1", SEEN)
    body["metadata"]["annotations"] = {"cpuset.bai.dev/main": "0"}
    kubernetes.pod(kube_namespace, body)
    assert seen(kubernetes, kube_namespace, "later")["cpus"] == ["0"]
    after = kubernetes.api.get(f"{CORE}/namespaces/{kube_namespace}/pods/runs")["status"]
    assert (after["phase"], after["containerStatuses"][0]["containerID"]) == ("Running", before)


def test_a_node_can_be_cut_off_and_be_switched_off(kubernetes: Kubernetes, kube_namespace: str) -> None:
    _, node = kubernetes.pair()
    kubernetes.pod(kube_namespace, a_pod("lost", "n1", "exec sleep 1000"))
    boot = node.boot
    node.link(up=False)
    kubernetes.api.until(f"{CORE}/nodes/n1", lambda one: condition(one) == "Unknown", "it is missed")
    assert "sleep" in node.run(["ps", "-A"]).stdout
    node.kill()
    node.mend()
    found = kubernetes.api.get(f"{CORE}/nodes/n1")
    assert condition(found) == "True" and found["status"]["nodeInfo"]["bootID"] == node.boot != boot
    kubernetes.api.until(
        f"{CORE}/namespaces/{kube_namespace}/pods/lost",
        lambda pod: pod["status"]["phase"] == "Failed", "what ran there is known to have ended",
    )  # fmt: skip


def condition(node: dict[str, Any]) -> str:
    found: list[str] = [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"]
    return found[0]


def test_a_service_account_may_do_what_it_was_given(kubernetes: Kubernetes, kube_namespace: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    nodes = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    kubernetes.node("n1")
    api = Api(kubernetes.account(kube_namespace, "reader", rules, nodes))
    assert api.get(f"{CORE}/namespaces/{kube_namespace}/pods")["items"] == []
    assert api.get(f"{CORE}/nodes/n1")["metadata"]["name"] == "n1"
    for path in (f"{CORE}/pods", f"{CORE}/nodes", f"{CORE}/namespaces/{kube_namespace}/secrets"):
        with pytest.raises(ApiError, match="forbidden") as refused:
            api.get(path)
        assert refused.value.status == 403


def test_the_api_server_goes_and_comes_back_and_etcd_is_restored(
    kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path
) -> None:
    plane, path = kubernetes.control_plane, f"{CORE}/namespaces/{kube_namespace}/configmaps"
    node = kubernetes.node("n1")
    kubernetes.api.create(path, {"metadata": {"name": "before"}})
    plane.snapshot(tmp_path / "etcd")
    kubernetes.api.create(path, {"metadata": {"name": "after"}})
    plane.kill_api_server()
    assert not kubernetes.api.ready()
    plane.start_api_server()
    assert kubernetes.api.get(f"{path}/after")
    kubernetes.restore(tmp_path / "etcd")
    assert kubernetes.api.get(f"{path}/before")
    assert kubernetes.api.find(f"{path}/after") is None
    kubernetes.pod(kube_namespace, a_pod("then", "n1", "exec sleep 1000"))
    until(node.ready, "its driver hears that the kubelet has taken its devices away")


def test_simulated_nodes_become_ready_and_have_gpus(kubernetes: Kubernetes, kube_namespace: str) -> None:
    assert len(kubernetes.kwok(3)) == 3
    names = kubernetes.kwok(20, 4)
    nodes = kubernetes.api.get(f"{CORE}/nodes?labelSelector=type=kwok")["items"]
    assert sorted(one["metadata"]["name"] for one in nodes) == names and len(names) == 20
    assert {condition(one) for one in nodes} == {"True"}
    found = kubernetes.api.get(f"{RESOURCE}/resourceslices?fieldSelector=spec.nodeName={names[7]}")["items"]
    assert [one["attributes"]["uuid"]["string"] for one in found[0]["spec"]["devices"]] == [
        gpu_uuid(names[7], number) for number in range(4)
    ]
    place(kubernetes.api, kube_namespace, "simulated", names[7], (2,))
    assert kubernetes.begun(kube_namespace, "simulated")["status"]["phase"] == "Running"


def test_what_a_killed_process_left_is_swept(kubernetes_lab: Kubernetes) -> None:
    here = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", HOLD], cwd=here, check=False, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=300, env={**os.environ, "PYTHONPATH": str(here)},
    )  # fmt: skip
    prefix = done.stdout.strip()
    assert prefix, done.stderr
    with sweeping():
        pass
    nothing_is_left(prefix)
    until(kubernetes_lab.api.ready, "the other one is as it was")


@pytest.mark.usefixtures("kubernetes_lab")
def test_a_lab_that_is_closed_twice_leaves_the_next_one_of_its_name_alone() -> None:
    def both() -> tuple[Spaces, Spaces] | None:
        """None where a lab of another worker has taken the name in between."""
        before = Spaces()
        before.close()
        after = Spaces()
        if after.prefix == before.prefix:
            return before, after
        after.close()
        return None

    before, after = until(both, "a lab has the name of one before it")
    try:
        after.add()
        before.close()
        assert (after.folder / "owner.json").exists()
        assert len(list(Path("/run/netns").glob(f"{after.prefix}-*"))) == 2
    finally:
        after.close()
    nothing_is_left(after.prefix)


def test_nothing_is_left_of_a_cluster_that_is_closed(kubernetes_lab: Kubernetes) -> None:
    lab = Kubernetes()
    try:
        (node,) = lab.add({"alone": NodeOptions(gpus=2)})
        lab.pod("default", a_pod("left", node.name, "exec sleep 1000"))
        assert list(_processes(lab.folder)) and list(_members(lab.spaces.prefix))
    finally:
        lab.close()
    nothing_is_left(lab.spaces.prefix)


def nothing_is_left(prefix: str) -> None:
    """While nobody makes another lab: it would have this name, the first one that is free."""
    folder = base() / prefix
    with _locked():
        if is_anothers(folder):
            return
        assert not folder.exists()
        assert not list(Path("/run/netns").glob(f"{prefix}-*"))
        assert not groups(prefix)
        assert not list(_processes(folder)) and not list(_members(prefix))
        assert f"{folder}/" not in Path("/proc/self/mounts").read_text()


def is_anothers(folder: Path) -> bool:
    """Whether a lab of another worker, which is there, has come to the name since."""
    try:
        owner = json.loads((folder / "owner.json").read_text())
    except (FileNotFoundError, ValueError):
        return False
    alive = started(owner["pid"]) == owner["started"] or owner["namespace"] != pid_namespace()
    return owner["pid"] != os.getpid() and alive


def test_a_go_that_is_too_old_is_a_reason_to_skip(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module example.com/ahead\n\ngo 99.1\n")
    with pytest.raises(LabUnavailable, match=r"Go 99\.1 or later is needed"):
        binaries(tmp_path)


def test_sources_that_do_not_build_are_no_reason_to_skip(kubernetes_lab: Kubernetes, tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module example.com/broken\n\ngo 1.26\n")
    (tmp_path / "main.go").write_text("package main\n\nfunc main() { nothing() }\n")
    with pytest.raises(BuildFailed, match="undefined: nothing"):
        binaries(tmp_path)
