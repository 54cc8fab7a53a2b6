"""Who may commit, and sessions, against what volumes of a Kubernetes cluster do not show."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.base import Mount
from providers.kubernetes.api.access import kubeconfig_access
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.errors import ApiRefusal
from providers.kubernetes.objects.names import PodRef, namespaced
from providers.kubernetes.objects.pod import pod_manifest
from providers.kubernetes.provider import KubernetesProvider
from schemas.kinds.parts.kubernetes import Kubernetes as Options
from schemas.loading.loader import load_directory
from schemas.problems.errors.repository import InvalidRepository
from tests.lab.kubernetes.lab import Kubernetes
from tests.providers.kubernetes.specs import ID, UID, script
from tests.waiting import until

POLICY = Path(__file__).parents[2] / "deploy" / "kubernetes" / "host-paths.yaml"
BASE = """
apiVersion: bai/v1
kind: Cluster
metadata: {{name: lab}}
spec: {{provider: kubernetes, kubernetes: {{{options}}}}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: vision}}
spec: {{}}
---
apiVersion: bai/v1
kind: Node
metadata: {{name: n0}}
spec: {{resourceGroup: all}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
spec: {{}}
---
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: disk}}
spec: {{type: nfs, root: {root}}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: v, project: vision}}
spec: {{path: {path}}}
"""
PLANTS = "ln -s {outside} /data/away && ln -s ../../speech/own /data/across && ln -s inside /data/near"


def problems(folder: Path, options: str, root: str, path: str = "vision/v") -> str:
    (folder / "all.yaml").write_text(BASE.format(options=options, root=root, path=path))
    with pytest.raises(InvalidRepository) as refused:
        load_directory(folder)
    return "\n".join(map(str, refused.value.problems))


@pytest.mark.parametrize(
    "root", ["/", "/etc", "/srv", "/srv/baix", "/srv/bai/../../etc", "//etc", "/srv/bai/.."]
)
def test_a_committer_mounts_no_folder_that_the_cluster_does_not_name(tmp_path: Path, root: str) -> None:
    assert "all.yaml:25:" in problems(tmp_path, "hostPathRoots: [/srv/bai]", root)


def test_without_a_named_folder_none_is_mounted(tmp_path: Path) -> None:
    assert "Cluster/lab has none" in problems(tmp_path, "", "/srv/bai")


@pytest.mark.parametrize(
    "root", ["/", "/var", "/etc/kubernetes", "/var/lib/kubelet", "/run", "//", "/var/lib"]
)
def test_no_document_names_the_systems_folders(tmp_path: Path, root: str) -> None:
    said = problems(tmp_path, f"hostPathRoots: [{root}]", "/srv/bai")
    assert "hostPathRoots[0]" in said and "belongs to the system" in said


@pytest.mark.parametrize(
    "path", ["vision", "vision/v/w", "./v", "vision/../v", "/etc/v", "../etc", "vision/v/../.."]
)
def test_no_volume_lies_where_another_ones_sessions_could_have_left_a_link(tmp_path: Path, path: str) -> None:
    """Not even one whose document is gone: its folder, and the links in it, stay."""
    assert "all.yaml:30:" in problems(tmp_path, "hostPathRoots: [/srv/bai]", "/srv/bai", path)


@pytest.mark.parametrize("path", ["speech/own", "shared/v", "visio/n"])
def test_no_volume_lies_in_another_projects_folder(tmp_path: Path, path: str) -> None:
    """Whether that project is there or gone: nobody looks whom a folder belongs to."""
    said = problems(tmp_path, "hostPathRoots: [/srv/bai]", "/srv/bai", path)
    assert "is not in the folder of its project; write a path such as vision/v" in said
    text = (tmp_path / "all.yaml").read_text().replace("name: v, project: vision", "name: v")
    (tmp_path / "all.yaml").write_text(text.replace(path, "vision/own"))
    with pytest.raises(InvalidRepository) as refused:
        load_directory(tmp_path)
    assert "is in the folder of Project/vision" in str(refused.value.problems[0])


def test_no_storage_host_lies_in_anothers_folders(tmp_path: Path) -> None:
    inner = (
        "---\napiVersion: bai/v1\nkind: StorageHost\nmetadata: {name: inner}\nspec: {type: nfs, root: ROOT}\n"
    )
    for root in ("/srv/bai/vision/v/link", "/srv/bai/vision", "//srv/bai//vision/"):
        (tmp_path / "inner.yaml").write_text(inner.removeprefix("---\n").replace("ROOT", root))
        assert "lies in that of StorageHost/disk" in problems(
            tmp_path, "hostPathRoots: [/srv/bai]", "/srv/bai"
        )


class Cell:
    """A provider in a namespace, and two volumes of one root."""

    def __init__(self, lab: Kubernetes, namespace: str, root: Path) -> None:
        self.lab, self.namespace, self.root = lab, namespace, root
        options = Options.model_validate({"namespace": namespace, "hostPathRoots": [str(root)]})
        self.provider = KubernetesProvider(ApiClient(kubeconfig_access([lab.kubeconfig])), options)

    def mount(self, sub_path: str = "") -> Mount:
        source = f"{self.root}/vision/v/{sub_path}".rstrip("/")
        return Mount(source, "/data", False, str(self.root), sub_path=sub_path)

    def state(self) -> str:
        found = next((one for one in self.provider.observe().kernels if one.id == ID), None)
        return f"{found.state} {found.reason}" if found is not None else ""


@pytest.fixture
def cell(kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path) -> Iterator[Cell]:
    kubernetes.pair()
    for name, uid in (("vision/v", UID), ("speech/own", UID + 1)):
        (tmp_path / "root" / name).mkdir(parents=True)
        os.chown(tmp_path / "root" / name, uid, uid)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("hush")
    found = Cell(kubernetes, kube_namespace, tmp_path / "root")
    yield found
    found.provider.close()


@pytest.mark.slow
@pytest.mark.xdist_group("kubernetes-sessions")
def test_a_link_in_a_volume_leads_nowhere_else(cell: Cell, tmp_path: Path) -> None:
    """Sessions leave links where later ones mount a `subPath`: out of the root, and to another volume of it.
    One that stays in the volume is followed."""
    plants = f"mkdir /data/inside && {PLANTS.format(outside=tmp_path / 'outside')}"
    cell.provider.create(script(plants, mounts=(cell.mount(),)))
    until(lambda: cell.state().startswith("exited"), cell.state, pause=0.1)
    cell.provider.remove(ID)
    for sub_path in ("away", "across", "away/secret", "across/deeper"):
        cell.provider.create(script("ls /data; touch /data/was-here", mounts=(cell.mount(sub_path),)))
        until(lambda: "subPath" in cell.state(), cell.state, pause=0.1)
        assert cell.state().startswith("starting"), cell.state()
        cell.provider.remove(ID)
    cell.provider.create(script("touch /data/was-here; echo in", mounts=(cell.mount("near"),)))
    until(lambda: cell.state().startswith("exited"), cell.state, pause=0.1)
    assert list(tmp_path.rglob("was-here")) == [cell.root / "vision" / "v" / "inside" / "was-here"]
    assert sorted(os.listdir(tmp_path / "outside")) == ["secret"]
    assert os.listdir(cell.root / "speech" / "own") == []


@pytest.mark.slow
@pytest.mark.xdist_group("kubernetes-sessions")
def test_an_administrator_says_which_folders_whatever_documents_say(
    kubernetes: Kubernetes, kube_namespace: str, tmp_path: Path
) -> None:
    """The policy of deploy/kubernetes, for whoever has all rights in the namespace."""
    client = ApiClient(kubeconfig_access([kubernetes.kubeconfig]))
    policy = tmp_path / "policy.yaml"
    text = POLICY.read_text().replace(
        "kubernetes.io/metadata.name: bai", f"kubernetes.io/metadata.name: {kube_namespace}"
    )
    policy.write_text(text)

    def refused(path: str, **security: object) -> str:
        mount = Mount(f"{path}/vision/v" if path != "/" else "/", "/data", root=path)
        options = Options.model_validate({"namespace": kube_namespace, "hostPathRoots": ["/"]})
        body = pod_manifest(
            script("true", mounts=(mount,)), PodRef(kube_namespace, ID), options, "", claims=0
        )
        body["spec"]["containers"][0]["securityContext"].update(security)
        try:
            client.create(namespaced("pods", kube_namespace), body, {"dryRun": "All"})
        except ApiRefusal as refusal:
            return refusal.message
        return ""

    assert refused("/") == ""
    kubernetes.kubectl("apply", "-f", str(policy))
    try:
        until(lambda: "bai-host-paths does not name" in refused("/"), "the policy is heeded", pause=0.2)
        for path in ("/etc", "/srv", "/srv/baix", "/"):
            assert "bai-host-paths does not name" in refused(path), path
        assert refused("/srv/bai") == ""
        for security in (
            {"privileged": True, "allowPrivilegeEscalation": True},
            {"allowPrivilegeEscalation": True},
            {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}},
            {"capabilities": {}},
        ):
            assert "not as restricted as bai's" in refused("/srv/bai", **security), security
    finally:
        kubernetes.kubectl("delete", "-f", str(policy))
        client.close()
