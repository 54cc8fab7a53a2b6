"""What a node's pod may say of its node, and what is believed of it."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from providers.kubernetes.objects.names import PodRef
from providers.kubernetes.observe.nodes import ClusterNode, parse_node
from providers.kubernetes.probe.answer import LARGEST, read_answer
from providers.kubernetes.probe.look import NodeProbe, probe_nodes
from providers.kubernetes.probe.pod import probe_manifest, probe_ref
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.provider import ProviderError
from schemas.problems.errors.repository import CannotRead
from tests.providers.kubernetes.api_server import Answer, Request, listed, serving, status
from tests.providers.kubernetes.specs import node

NODE = ClusterNode("n0", cpus=8, memory=64 << 30, architecture="x86_64")
OPTIONS = Kubernetes.model_validate({"namespace": "bai", "probeImage": "python:3"})
REF = probe_ref("bai", "n0")


def machine(**fields: Any) -> dict[str, Any]:
    return {
        "architecture": "x86_64",
        "numaNodes": [
            {"id": 0, "cpus": "0-3", "memory": 40 << 30},
            {"id": 1, "cpus": "4-7", "memory": 24 << 30},
        ],
        **fields,
    }


def said(**fields: Any) -> bytes:
    return json.dumps(machine(**fields)).encode()


def test_the_last_line_counts_whatever_else_was_said() -> None:
    found = read_answer(b"warning: something\n{}\n" + said() + b"\n", NODE)
    assert [each.memory for each in found.numa_nodes] == [40 << 30, 24 << 30]


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (b"", "no line of JSON"),
        (b"{", "it is no JSON"),
        (b"[" * 100_000, "no line of JSON"),
        (b'{"a":' * 100_000, "it is no JSON"),
        (said(numaNodes=[{"id": 0, "cpus": "0-999999"}]), "1000000 CPUs, where its kubelet has 8"),
        (said(numaNodes=[{"id": 0, "cpus": "0-999999999"}]), "CPUs, where its kubelet has 8"),
        (said(numaNodes=[{"id": i, "cpus": "0-65535"} for i in range(256)]), "CPUs, where its kubelet"),
        (said(numaNodes=[{"id": i} for i in range(1000)]), "numaNodes: more than 256"),
        (said(numaNodes=[{"id": 0, "cpus": "0-3"}]), "4 CPUs, where its kubelet has 8"),
        (said(numaNodes="0-7"), "0 CPUs, where its kubelet has 8"),
        (said(siblings=["0-65535"] * 30_000), "siblings: 1966080000 CPUs"),
        (said(isolatedCpus="0-65535,0-65535"), "isolatedCpus: 131072 CPUs"),
        (said(gpus=[{"id": str(i), "index": i} for i in range(1000)]), "gpus: more than 128"),
        (said(hostname="x" * 10_000), "a text of more than 1024 letters"),
        (said(unknown=[["x"] * 3]), "unknown"),
        (said(surprise=1), "surprise"),
        (said(links=[{"a": "gpu0", "b": "gpu1", "kind": "NV"}]), "no GPU or NIC has the id 'gpu0'"),
        (said(gpus=[{"id": "a", "index": 0, "numaNode": 7}]), "there is no NUMA node 7"),
    ],
)
def test_what_no_machine_is_is_refused(output: bytes, why: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CannotRead, match=why):
            read_answer(output, NODE)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20, "nothing was made of it"
    finally:
        tracemalloc.stop()


def test_what_a_kubelet_says_of_itself_has_an_end_too() -> None:
    many = node()
    many["status"]["capacity"]["cpu"] = "1000000000"
    assert parse_node(many).cpus == 65_536


class Kubelet:
    """An API server with one node, whose pod ends at once and has said `log`, again and again."""

    def __init__(self, log: bytes, times: int = 1, **status: Any) -> None:
        self.log, self.times = log, times
        self.status = {"phase": "Succeeded", **status}
        self.sent = 0
        self.deleted: list[str] = []
        self.created: list[Any] = []
        self.limit = ""

    def __call__(self, request: Request) -> Answer:
        if request.method == "POST":
            self.created.append(request.body)
        if request.method == "DELETE":
            self.deleted.append(request.path)
            return 200, {}
        if request.path.endswith("/log"):
            self.limit = request.query["limitBytes"]
            request.begin()
            for _ in range(self.times):
                request.say(self.log)
                self.sent += len(self.log)
            return None
        if request.path.endswith("/pods") and request.method == "GET":
            return listed()
        if request.path.startswith(REF.path) or request.method == "POST":
            metadata = {"name": REF.name, "namespace": "bai", "uid": "u", "resourceVersion": "5"}
            return 200, {"metadata": metadata, "spec": {}, "status": self.status}
        return status(404, "no", "NotFound")


def looked(folder: Path, kubelet: Kubelet) -> tuple[Any, Any]:
    with serving(folder, kubelet) as server:
        client = server.client()
        try:
            return probe_nodes(client, OPTIONS, [NODE])
        finally:
            client.close()


def test_a_log_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    kubelet = Kubelet(b"x" * 2**16, times=1600)
    found, failed = looked(tmp_path, kubelet)
    assert not found
    assert failed == {"n0": f"Node n0 refuses to be probed: its pod has said more than {LARGEST} bytes"}
    assert kubelet.limit == str(LARGEST + 1), "a kubelet that is sound does not even send it"
    assert kubelet.sent < 100 << 20, "nobody took it all"
    assert kubelet.deleted == [REF.path]


def test_a_pod_that_fails_says_why_in_the_last_words_it_had(tmp_path: Path) -> None:
    kubelet = Kubelet(b"Traceback\nprobe: /: no CPU is listed\n", phase="Failed")
    _, failed = looked(tmp_path, kubelet)
    assert failed == {"n0": "Node n0 refuses to be probed: probe: /: no CPU is listed"}
    assert kubelet.deleted == [REF.path]


def test_a_pod_is_taken_away_when_its_log_cannot_be_read(tmp_path: Path) -> None:
    found, failed = looked(tmp_path, kubelet := Kubelet(b"nonsense"))
    assert not found
    assert failed["n0"] == "Cannot read the output of the probe on n0: it has no line of JSON"
    assert kubelet.deleted == [REF.path]


def test_what_a_sound_pod_says_is_believed(tmp_path: Path) -> None:
    found, failed = looked(tmp_path, kubelet := Kubelet(said() + b"\n"))
    assert not failed and len(found["n0"].numa_nodes) == 2
    assert kubelet.created == [probe_manifest(REF, "n0", "python:3", OPTIONS)]


def test_a_pod_asks_for_nothing_that_restricted_namespaces_refuse() -> None:
    spec = probe_manifest(REF, "n0", "python:3", OPTIONS)["spec"]
    assert "volumes" not in spec and "hostPID" not in spec and "hostNetwork" not in spec
    assert spec["automountServiceAccountToken"] is False
    (container,) = spec["containers"]
    assert max(map(len, container["command"])) < 128 * 1024, "the kernel's limit for one argument"
    assert "$(" not in "".join(container["command"]), "kubelets would put variables there"


def test_nodes_have_pods_of_different_names() -> None:
    assert probe_ref("bai", "n0") != probe_ref("bai", "n1")
    assert probe_ref("bai", "x" * 253) == PodRef("bai", probe_ref("bai", "x" * 253).name)
    assert len(probe_ref("bai", "x" * 253).name) <= 63


def test_a_namespace_for_each_project_is_none_for_probes() -> None:
    given = {"namespace": "team-{project}", "probeImage": "python:3"}
    client: Any = None
    with pytest.raises(ProviderError, match="each project has a namespace of its own"):
        probe_nodes(client, Kubernetes.model_validate(given), [])
    options = Kubernetes.model_validate({**given, "probeNamespace": "bai-probes"})
    assert probe_nodes(client, options, []) == ({}, {})
    assert NodeProbe(client, options, options.namespace_of_probes, "i").look_at([]) == ({}, {})
