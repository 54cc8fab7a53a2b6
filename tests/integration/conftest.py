"""Repositories that several files of tests are about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bai.conftest import Repo
from tests.integration.kubernetes_documents import cluster_documents
from tests.lab.kubernetes.lab import Kubernetes


@pytest.fixture
def on_simulated_nodes(kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path) -> Iterator[Repo]:
    """A repository of two simulated nodes with eight GPUs each, for what no kubelet decides; in the end it
    runs nothing."""
    (tmp_path / "repository").mkdir()
    environment = {"KUBECONFIG": str(kubernetes.kubeconfig), "COLUMNS": "200", "NO_COLOR": "1"}
    made = Repo(tmp_path / "repository", {"XDG_STATE_HOME": str(tmp_path / "state"), **environment})
    made.write("lab.yaml", cluster_documents(kube_namespace, kubernetes.kwok(2)))
    yield made
    made.ok("destroy", "--yes")
