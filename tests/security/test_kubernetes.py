"""Who may commit, and sessions, against a Kubernetes cluster: whom bai is there, and what pods may be."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from providers.autoscaling.values import NodeAsks
from providers.base import File
from providers.kubernetes.objects.names import PodRef
from providers.kubernetes.objects.node_request import (
    claim_manifests,
    request_manifest,
    template_manifests,
)
from providers.kubernetes.objects.pod import beside, pod_manifest
from providers.kubernetes.options import open_kubernetes
from reconciler.plan.pipeline import make_plan
from reconciler.plan.plan_request import PlanRequest
from schemas.kinds.parts.kubernetes import Kubernetes as Options
from schemas.loading.loader import load_directory
from schemas.problems.errors.provider import InvalidOption
from schemas.problems.errors.repository import InvalidRepository
from tests.lab.kubernetes.lab import Kubernetes
from tests.providers.kubernetes.specs import script
from tests.reconciler.lab import BASE, Lab, session
from tests.waiting import until

CLUSTER = """
apiVersion: bai/v1
kind: Cluster
metadata: {{name: lab}}
spec:
  provider: kubernetes
  kubernetes: {{{options}}}
"""
RUNS = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'}}}}]
users:
  - name: u
    user:
      exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: [{proof}]}}
"""
LOOKS = """
ls /var/run/secrets/kubernetes.io 2>/dev/null && echo token
id -u
grep CapEff /proc/self/status
grep Seccomp: /proc/self/status
grep NoNewPrivs /proc/self/status
echo looked; sleep 1000
"""


def problems(folder: Path, options: str) -> str:
    (folder / "cluster.yaml").write_text(CLUSTER.format(options=options))
    with pytest.raises(InvalidRepository) as refused:
        load_directory(folder)
    return "\n".join(map(str, refused.value.problems))


def test_a_repository_names_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may run programs: only the file of whoever runs bai is read, not one of the repository's."""
    proof = tmp_path / "proof"
    (tmp_path / "kubeconfig").write_text(RUNS.format(proof=proof))
    for option in ("kubeconfig", "server", "token", "proxyUrl", "exec"):
        said = problems(tmp_path, f"{option}: {tmp_path / 'kubeconfig'}")
        assert f"unknown field '{option}'" in said
        with pytest.raises(InvalidOption):
            open_kubernetes({option: str(tmp_path / "kubeconfig")})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(Exception, match="there is no kubeconfig"):
        open_kubernetes({"context": "kubeconfig"})
    assert not proof.exists()


@pytest.mark.parametrize(
    "name",
    ["kube-system", "kube-public", "kube-{project}", "{project}", "k{project}", "../x", "a/b", "A", "x" * 64],
)
def test_namespaces_of_kubernetes_own_are_refused(tmp_path: Path, name: str) -> None:
    assert "namespace" in problems(tmp_path, f'namespace: "{name}"')


@pytest.mark.parametrize("name", ["system-node-critical", "system-", "system-x", "A", "a/b", "-a", "x" * 64])
def test_priority_classes_for_which_kubelets_drive_out_others_are_refused(tmp_path: Path, name: str) -> None:
    assert "priorityClass" in problems(tmp_path, f'priorityClass: "{name}"')


def test_secrets_are_in_no_manifest() -> None:
    spec = script("true", secret_env={"PASSWORD": "hush-hush"}, files=(File("a.xml", "<a/>", "A"),))
    pod = pod_manifest(spec, PodRef("bai", spec.id), Options(), "given", claims=0)
    assert "hush-hush" not in json.dumps(pod)
    made = {**pod, "metadata": {**pod["metadata"], "uid": "u"}}
    told = {kind: json.dumps(body) for kind, body in beside(spec, made)}
    assert [kind for kind, text in told.items() if "hush-hush" in text] == ["secrets"]


@pytest.mark.slow
@pytest.mark.xdist_group("kubernetes-sessions")
def test_a_pod_is_nobody_in_the_cluster(kubernetes: Kubernetes, kube_namespace: str) -> None:
    kubernetes.pair()
    kubernetes.kubectl("label", "namespace", kube_namespace, "pod-security.kubernetes.io/enforce=restricted")
    spec = script(LOOKS)
    body = pod_manifest(
        spec, PodRef(kube_namespace, spec.id), Options(namespace=kube_namespace), "", claims=0
    )
    body["spec"]["nodeName"] = "n1"
    kubernetes.pod(kube_namespace, body)

    def said() -> list[str]:
        lines = kubernetes.log(kube_namespace, spec.id).split("\n")
        return lines if "looked" in lines else []

    lines = until(said, "it has looked", pause=0.1)
    assert "token" not in lines
    assert lines[0] == str(spec.uid)
    assert [line.split() for line in lines[1:4]] == [
        ["CapEff:", "0" * 16], ["Seccomp:", "2"], ["NoNewPrivs:", "1"],
    ]  # fmt: skip


def test_a_committer_chooses_nothing_of_a_request_but_amounts(tmp_path: Path) -> None:
    """What a session says goes to no object by which an autoscaler is asked for nodes."""
    lab = Lab(tmp_path)
    pools = "{default: {nodeSelector: {pool: gpus}}}"
    options = f"{{provider: kubernetes, kubernetes: {{provisioningRequests: {pools}}}}}"
    lab.write({"base": BASE.replace("{provider: fake}", options)})
    marked = (
        'image: "mark/mark:1", workdir: /mark, env: {MARK: mark}, container: {user: "4242"},'
        " resources: {cpu: 1, memory: 1GiB, shm: 64MiB, cuda.device: 8}, ports: [{name: mark, port: 4242}]"
    )
    about = 'labels: {mark: mark}, annotations: {"mark/mark": mark}'
    lab.write({"s": session("train", marked, meta=about).replace("[sleep, inf]", "[mark]")})
    actual = replace(lab.actual(), node_asks=NodeAsks())
    (request,) = make_plan(PlanRequest(lab.desired(), actual, 0.0)).node_requests
    made = [
        *template_manifests(request, "t"), *claim_manifests(request, "t"), request_manifest(request, "t"),
    ]  # fmt: skip
    assert len(made) == 3 and not {"mark", "4242"} & set(re.split(r"[^a-z0-9]+", json.dumps(made).lower()))
    (pod,) = [each["template"]["spec"] for each in made if each["kind"] == "PodTemplate"]
    assert pod["nodeSelector"] == {"pool": "gpus"}
    assert [each["key"] for each in pod["tolerations"]] == ["bai.dev/node"]
