"""`bai nodes probe` on a real cluster: pods look at real nodes, and none of them is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.kubernetes.objects.names import PodRef
from providers.kubernetes.probe.pod import PROBE, probe_manifest, probe_ref
from providers.probe.collect.inside import collect_inside
from schemas.hardware.completion import complete
from schemas.hardware.model import UNKNOWN_CORES, Hardware
from schemas.problems.errors.provider import ProviderError
from tests.harness.bai_process import Command, run_bai
from tests.lab import huge_pages
from tests.lab.docker import IMAGE
from tests.lab.kubernetes.gpus import gpu_uuid
from tests.lab.kubernetes.python_image import PYTHON, archive
from tests.providers.kubernetes.conftest import Cluster
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]
BOTH = frozenset({"n0", "n1"})


@pytest.fixture
def probed(pair: Cluster) -> Iterator[Cluster]:
    """Two nodes with an image of Python, and a namespace that is as restricted as can be."""
    for node in pair.lab.pair():
        node.take(archive())
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    pair.client().patch(f"/api/v1/namespaces/{pair.namespace}", restricted)
    with huge_pages.unchanged():
        yield pair


def test_restricted_pods_see_what_the_machine_has(probed: Cluster) -> None:
    provider = probed.open(probeImage=PYTHON)
    found, failed = provider.probe(BOTH)
    assert not failed
    here = Hardware.model_validate(collect_inside())
    for name in BOTH:
        assert found[name].hostname == name
        assert found[name].numa_nodes == here.numa_nodes
        assert found[name].siblings == here.siblings
        assert found[name].disks == here.disks
        assert found[name].software.kernel == os.uname().release
        assert {gpu.id for gpu in found[name].gpus} == {gpu_uuid(name, each) for each in range(8)}
        assert found[name].knows_cores
    probed.is_empty()
    seen, _ = provider.hardware(BOTH)
    planned = complete(seen["n0"], found["n0"], "a probe")
    assert UNKNOWN_CORES in planned.unknown, "nobody gives cores one by one there"
    assert planned.numa_nodes == seen["n0"].numa_nodes


def test_it_is_no_session_and_takes_no_room(probed: Cluster) -> None:
    """As one that has been left, whose node has not ended it yet."""
    provider = probed.open(probeImage=PYTHON)
    before = probed.use(provider, "n0")
    ref = probe_ref(probed.namespace, "n0")
    body = probe_manifest(ref, "n0", IMAGE, provider.options)
    body["spec"]["containers"][0]["command"] = ["sleep", "1000"]
    probed.client().create(probed.path("pods"), body)
    probed.lab.begun(probed.namespace, ref.name)
    seen = provider.observe()
    assert seen.complete and seen.kernels == () and seen.claimed == ()
    after = probed.use(provider, "n0")
    assert (after.cpu_milli, after.memory) == (before.cpu_milli, before.memory)
    probed.client().patch(ref.path, {"spec": {"activeDeadlineSeconds": 1}})
    found, failed = provider.probe(frozenset({"n0"}))
    assert found and not failed, "it was cleared away, and another one looked"
    probed.is_empty()


KILLED = """
import os, signal, sys
from providers.kubernetes.probe import look
from tests.providers.kubernetes.test_probe import opened

def wait_for_pod(*given):
    os.kill(os.getpid(), signal.SIGKILL)

look.wait_for_pod = wait_for_pod
opened(*sys.argv[1:]).probe(frozenset({"n0", "n1"}))
"""


def opened(kubeconfig: str, namespace: str) -> Any:
    from providers.kubernetes.api.access import kubeconfig_access
    from providers.kubernetes.api.client import ApiClient
    from providers.kubernetes.provider import KubernetesProvider
    from schemas.kinds.parts.kubernetes import Kubernetes as Options

    options = Options.model_validate({"namespace": namespace, "probeImage": PYTHON})
    return KubernetesProvider(ApiClient(kubeconfig_access([Path(kubeconfig)])), options)


def test_who_is_killed_leaves_pods_that_end_and_that_the_next_probe_clears_away(probed: Cluster) -> None:
    words = [sys.executable, "-c", KILLED, str(probed.lab.kubeconfig), probed.namespace]
    done = subprocess.run(words, cwd=Path(__file__).parents[3], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    left = probed.lab.api.get(f"{probed.path('pods')}?labelSelector={PROBE}=true")["items"]
    assert left
    provider = probed.open(probeImage=PYTHON)
    assert provider.observe().kernels == ()
    found, failed = provider.probe(BOTH)
    assert found.keys() == BOTH and not failed
    probed.is_empty()


def test_who_is_interrupted_leaves_none(probed: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from providers.kubernetes.probe import look

    real, asked = look.wait_for_pod, []

    def wait(client: Any, ref: PodRef, *rest: Any) -> Any:
        asked.append(ref)
        until(lambda: len(asked) == len(BOTH), "both are looked at")
        if ref == asked[0]:
            raise KeyboardInterrupt
        return real(client, ref, *rest)

    monkeypatch.setattr(look, "wait_for_pod", wait)
    with pytest.raises(KeyboardInterrupt):
        probed.open(probeImage=PYTHON).probe(BOTH)
    probed.is_empty()


def test_one_node_that_cannot_be_looked_at_keeps_nobody_from_the_others(probed: Cluster) -> None:
    simulated = probed.simulated()
    probed.lab.kubectl("cordon", "n1")
    provider = probed.open(probeImage=PYTHON)
    try:
        found, failed = provider.probe(frozenset({*BOTH, simulated, "none-such"}))
    finally:
        probed.lab.kubectl("uncordon", "n1")
    assert found.keys() == {"n0"}
    assert failed == {
        "none-such": "the cluster has no node of this name",
        "n1": "Node n1 refuses to be probed: it is cordoned: unschedulable in the cluster",
        simulated: f"Node {simulated} refuses to be probed: nothing runs on this node: it is simulated",
    }
    probed.is_empty()


def test_what_is_wrong_with_the_image_is_said(probed: Cluster) -> None:
    provider = probed.open()
    with pytest.raises(ProviderError, match="no image is named"):
        provider.probe(BOTH)
    _, failed = provider.probe(frozenset({"n0"}), IMAGE)
    assert 'exec: "python3": executable file not found' in failed["n0"]
    _, failed = provider.probe(frozenset({"n0"}), "No:Image")
    assert "InvalidImageName" in failed["n0"]
    probed.is_empty()


def test_what_a_driver_publishes_counts_before_what_a_pod_sees(probed: Cluster) -> None:
    """The stand-in of this machine's CPUs says that there are two NUMA nodes."""
    node = probed.lab.cores()
    node.take(archive())
    provider = probed.open(probeImage=PYTHON)
    found, failed = provider.probe(frozenset({"n2"}))
    assert not failed
    seen, _ = provider.hardware(frozenset({"n2"}))
    assert found["n2"].numa_nodes == Hardware.model_validate(collect_inside()).numa_nodes
    planned = complete(seen["n2"], found["n2"], "a probe")
    assert planned.numa_nodes == seen["n2"].numa_nodes and planned.knows_cores
    assert any("other CPUs are of its NUMA nodes" in each for each in planned.unknown)
    probed.is_empty()


CLUSTER = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: lab}
spec:
  provider: kubernetes
  kubernetes: {namespace: %s}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: all}
spec: {}
---
apiVersion: bai/v1
kind: NodePool
metadata: {name: pool}
spec: {namePattern: "n[0-1]", resourceGroup: all%s}
"""


def test_the_command_prints_what_a_document_takes(probed: Cluster, tmp_path: Path) -> None:
    (tmp_path / "bai.yaml").write_text(CLUSTER % (probed.namespace, ""))
    environment = {**os.environ, "KUBECONFIG": str(probed.lab.kubeconfig)}

    def bai(*words: str) -> subprocess.CompletedProcess[str]:
        return run_bai(Command(words, environment, tmp_path), timeout=120)

    without = bai("nodes", "probe", "n0")
    assert without.returncode == 1 and "no image is named" in without.stderr
    done = bai("nodes", "probe", "n0", "--image", PYTHON, "--out", "n0.json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads((tmp_path / "n0.json").read_text())["gpus"]) == 8
    done = bai("nodes", "probe", "--all", "--image", PYTHON)
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["n0", "n1"]
    shown = bai("nodes", "show", "n0", "--format", "json")
    assert shown.returncode == 0, shown.stderr

    def warnings() -> list[str]:
        planned = bai("plan", "--format", "json")
        assert planned.returncode in (0, 2), planned.stderr
        return [each for each in json.loads(planned.stdout)["plan"]["warnings"] if "document" in each]

    (tmp_path / "bai.yaml").write_text(CLUSTER % (probed.namespace, ", hardwareFrom: n0.json"))
    assert warnings() == [], "both are of one make"
    declared = json.loads((tmp_path / "n0.json").read_text())
    declared["numaNodes"] = [{"id": 0, "cpus": "0-63", "memory": "1GiB"}]
    (tmp_path / "n0.json").write_text(json.dumps({**declared, "siblings": []}))
    wrong = f"says that it has 64 CPUs, and it has {os.cpu_count()}: what is seen counts"
    assert warnings() == [f"the document of {name} {wrong}" for name in ("n0", "n1")]
    done = bai("nodes", "probe", "n1", "--image", PYTHON)
    assert "warning: the document of n1 says that it has 64 CPUs" in done.stderr
    probed.is_empty()
