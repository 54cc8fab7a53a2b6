"""Volumes of a Kubernetes cluster as its users have them: documents, and the command."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.kinds.storage import Volume
from tests.bai.conftest import Repo
from tests.integration.kubernetes_documents import cluster_documents
from tests.lab.kubernetes.api import CORE
from tests.lab.kubernetes.lab import Kubernetes
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
STORAGE = """---
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: claims}}
spec: {{type: pvc, pvc: {{storageClass: {namespace}, size: 5MiB}}}}
---
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: disk}}
spec: {{type: local, root: "{root}", node: n0}}
"""
VOLUME = """
apiVersion: bai/v1
kind: Volume
metadata: {{name: {name}, project: p}}
spec: {{{spec}}}
"""
SESSION = """
apiVersion: bai/v1
kind: Session
metadata: {{name: {name}, project: p}}
spec:
  type: batch
  image: bai-lab:1
  resources: {{cpu: 100m, memory: 16MiB}}
  stop: {{grace: 1s}}
  mounts: [{mounts}]
  command: [sh, -c, "{command}"]
"""
Make = Callable[..., Repo]


@pytest.fixture
def repo(kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path) -> Iterator[Repo]:
    """One node, a class of claims with a volume that an administrator has made, and a folder of the node."""
    kubernetes.pair()
    (tmp_path / "root").mkdir()
    (tmp_path / "given").mkdir(mode=0o777)
    (tmp_path / "given").chmod(0o777)
    spec = {
        "capacity": {"storage": "10Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": kube_namespace,
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": str(tmp_path / "given")},
    }  # fmt: skip
    kubernetes.api.create(f"{CORE}/persistentvolumes", {"metadata": {"name": kube_namespace}, "spec": spec})
    (tmp_path / "repository").mkdir()
    environment = {"KUBECONFIG": str(kubernetes.kubeconfig), "COLUMNS": "250", "NO_COLOR": "1"}
    made = Repo(tmp_path / "repository", {"XDG_STATE_HOME": str(tmp_path / "state"), **environment})
    root = tmp_path / "root"
    lab = cluster_documents(
        kube_namespace, ("n0",), options=f'hostPathRoots: ["{root}"]', project="uid: 4711"
    )
    made.write("lab.yaml", lab + STORAGE.format(namespace=kube_namespace, root=root))
    yield made
    made.ok("destroy", "--yes")
    claims = f"{CORE}/namespaces/{kube_namespace}/persistentvolumeclaims"
    kubernetes.api.call("DELETE", claims)
    until(lambda: not kubernetes.api.get(claims)["items"], "the claims are gone", pause=0.1)
    kubernetes.kubectl("delete", "persistentvolume", kube_namespace, "--wait=false")


def volume(repo: Repo, name: str, spec: str = "") -> None:
    repo.write(f"{name}.yaml", VOLUME.format(name=name, spec=spec))


def ran(repo: Repo, name: str, mounts: str, command: str) -> str:
    """What a batch session has said, whose documents are gone again."""
    path = repo.write(f"{name}.yaml", SESSION.format(name=name, mounts=mounts, command=command))

    def ended() -> bool:
        repo.ok("apply", "--yes")
        return bool(find(repo, name)["phase"] == "TERMINATED")

    until(ended, lambda: str(find(repo, name)), pause=1)
    said = repo.ok("logs", name).out
    path.unlink()
    repo.ok("apply", "--yes")
    return said


def find(repo: Repo, name: str) -> dict[str, Any]:
    (found,) = repo.ok("get", f"session/{name}", "-o", "json").json["items"]
    return dict(found)


def listed(repo: Repo) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in repo.ok("volumes", "--format", "json").json["items"]}


def test_the_life_of_a_claim(repo: Repo, kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path) -> None:
    volume(repo, "data", "host: claims")
    named = Volume.model_validate({
        "apiVersion": "bai/v1", "kind": "Volume", "metadata": {"name": "data", "project": "p"}, "spec": {},
    }).claim_name  # fmt: skip
    repo.ok("apply", "--yes")
    assert "No changes." in repo.ok("plan").out
    ran(repo, "writes", "{volume: data, path: /data}", "echo kept >/data/x")
    assert (tmp_path / "given" / "x").read_text() == "kept\n"
    reads = "{volume: data, path: /data, readOnly: true}"
    said = ran(repo, "reads", reads, "cat /data/x; touch /data/y || echo no").splitlines()
    assert {"kept", "no"} <= set(said) and "Read-only file system" in " ".join(said)
    found = listed(repo)["Volume/p/data"]
    assert (found["folder"], found["capacity"], found["size"]) == (
        f"pvc {kube_namespace}/{named}", 10 * 2**20, 5 * 2**20,
    )  # fmt: skip
    assert f"pvc {kube_namespace}/{named}" in repo.ok("volumes").out
    assert "10MiB, ReadWriteOnce" in repo.ok("describe", "volume/data").out
    assert "1 of 1 can be used as they are written" in repo("doctor").out

    (repo.root / "data.yaml").unlink()
    assert "its claim goes to the trash of claims" in repo.ok("plan").out
    repo.ok("apply", "--yes")
    assert f"{kube_namespace}/{named}" in repo.ok("volumes", "trash").out
    volume(repo, "data", "host: claims")
    refused = repo("apply", "--yes")
    assert refused.code == 1 and "bai volumes restore p/data" in refused.out + refused.err
    assert f"back at pvc {kube_namespace}/{named}" in repo.ok("volumes", "restore", "data", "--yes").out
    assert ran(repo, "again", reads, "cat /data/x") == "kept\n"
    (repo.root / "data.yaml").unlink()
    repo.ok("apply", "--yes")
    repo.ok("volumes", "purge", "data", "--yes")
    path = f"{CORE}/namespaces/{kube_namespace}/persistentvolumeclaims/{named}"
    until(lambda: kubernetes.api.find(path) is None, "the claim is gone", pause=0.1)
    assert (tmp_path / "given" / "x").read_text() == "kept\n"


def test_a_folder_of_a_node(repo: Repo, tmp_path: Path) -> None:
    volume(repo, "files", "host: disk")
    folder = tmp_path / "root" / "p" / "files"
    said = repo.ok("plan").out
    assert f"install -d -m 2775 -o 4711 -g 4711 {folder}" in said
    repo.ok("apply", "--yes")
    repo.write("s.yaml", SESSION.format(name="s", mounts="{volume: files, path: /f}", command="echo x >/f/x"))

    def why() -> str:
        repo.ok("apply", "--yes")
        return str(find(repo, "s").get("reason"))

    until(lambda: "make the folder on that node" in why(), why, pause=1)
    folder.parent.mkdir(parents=True)
    made = tmp_path / "made"
    made.mkdir()
    os.chown(made, 4711, 4711)
    made.rename(folder)  # The kubelet takes it as it finds it.
    until(lambda: why() and find(repo, "s")["phase"] == "TERMINATED", why, pause=1)
    assert (folder / "x").stat().st_uid == 4711
    assert listed(repo)["Volume/p/files"]["folder"] == str(folder)
    assert "nobody looks at it" in repo.ok("volumes").out
    for name in ("s", "files"):
        (repo.root / f"{name}.yaml").unlink()
    assert f"its data stays: {folder}" in repo.ok("plan").out
    repo.ok("apply", "--yes")
    assert (folder / "x").read_text() == "x\n"
