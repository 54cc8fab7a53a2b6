"""`bai doctor` and `bai nodes check` of a Kubernetes cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.bai_process import Command, run_bai
from tests.lab.kubernetes.lab import Kubernetes

pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
DOCUMENTS = """
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
kind: Node
metadata: {{name: n1}}
spec: {{}}
"""
SEES = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
]


def test_what_is_missing_is_said(kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path) -> None:
    kubernetes.pair()
    (tmp_path / "lab.yaml").write_text(DOCUMENTS.format(namespace=kube_namespace))

    def bai(kubeconfig: Path, *words: str) -> str:
        environment = {"KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path), "COLUMNS": "400"}
        return run_bai(Command(words, environment, tmp_path), timeout=120).stdout

    said = bai(kubernetes.kubeconfig, "doctor")
    assert "api server" in said and "Kubernetes v1." in said
    assert "published by" in said and "gpu.nvidia.com on" in said
    assert f"all that bai needs, in namespace {kube_namespace}" in said
    assert "1 node ready, by their cluster" in said
    rows = bai(kubernetes.kubeconfig, "nodes", "check").splitlines()
    assert rows[1].split()[:4] == ["n1", "-", "not", "needed"]
    some = kubernetes.account(kube_namespace, "some", [], SEES)
    said = bai(some, "doctor")
    assert f"create pods in {kube_namespace}" in said and "update resourceclaims/binding" in said
    assert "list nodes" not in said
    said = bai(tmp_path / "nowhere", "doctor")
    assert "there is no kubeconfig at" in said
