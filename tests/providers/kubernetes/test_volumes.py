"""Volumes of pods on a real cluster: folders of nodes, claims, and exports as far as the API server goes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.base import Mount, Observed
from providers.kubernetes.objects.volume_claim import SELECTED_NODE
from providers.kubernetes.provider import KubernetesProvider
from providers.kubernetes.volumes.storage import KubernetesStorage
from providers.storage.base import TrashedVolume, TrashLocation, VolumeClaim, VolumeFolder
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.node import VolumeRefused
from tests.lab.kubernetes.api import CORE
from tests.providers.kubernetes.conftest import Cluster, once, seen
from tests.providers.kubernetes.specs import ID, UID, kernel, script
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
VOLUME = "Volume/vision/data"
MIB = 2**20
Claim = Callable[..., VolumeFolder]


@pytest.fixture
def root(pair: Cluster, tmp_path: Path) -> Path:
    """A folder of the nodes, which have this machine's, with that of one volume, the project's."""
    folder = tmp_path / "root" / "vision" / "data"
    folder.mkdir(parents=True)
    os.chown(folder, UID, UID)
    folder.chmod(0o2775)
    return tmp_path / "root"


def of_root(root: Path, sub_path: str = "", *, read_only: bool = False) -> Mount:
    source = f"{root}/vision/data/{sub_path}".rstrip("/")
    return Mount(source, "/data", read_only, str(root), sub_path=sub_path)


def said_by(cluster: Cluster, provider: KubernetesProvider, text: str, mount: Mount) -> str:
    """What a kernel has said that ran, had this mounted, and is gone again."""
    provider.create(script(text, mounts=(mount,)))
    once(provider, "exited")
    said = cluster.log(ID)
    provider.remove(ID)
    return said


def waits_for(provider: KubernetesProvider, word: str) -> str:
    """Why the kernel does not start, once that has this word in it."""

    def why() -> str:
        found = seen(provider)
        said = found.reason if found is not None and found.state == "starting" else ""
        return said if word in said else ""

    return until(why, lambda: f"{word}: {seen(provider)}", pause=0.2)


def test_a_folder_of_a_node_outlives_its_sessions(pair: Cluster, root: Path) -> None:
    provider = pair.open(hostPathRoots=[str(root)])
    said_by(pair, provider, "echo kept >/data/x && mkdir /data/runs && echo 7 >/data/runs/7", of_root(root))
    assert (root / "vision" / "data" / "x").read_text() == "kept\n"
    assert (root / "vision" / "data" / "x").stat().st_uid == UID
    tries = "cat /data/x; touch /data/y || echo no new file; echo z >/data/x || echo no other content"
    said = said_by(pair, provider, tries, of_root(root, read_only=True))
    assert {"kept", "no new file", "no other content"} <= set(said.splitlines())
    assert said.count("Read-only file system") == 2
    assert said_by(pair, provider, "cat /data/7; ls /data", of_root(root, "runs")) == "7\n7\n"
    said_by(pair, provider, "touch /data/n", of_root(root, "new/er"))
    made = (root / "vision" / "data" / "new" / "er" / "n").stat()
    assert (made.st_uid, made.st_gid) == (UID, UID)


def test_a_folder_that_is_not_there_is_why_it_waits(pair: Cluster, root: Path) -> None:
    """A root that is not mounted is not filled."""
    provider = pair.open(hostPathRoots=[str(root)])
    missing = Mount(f"{root}/vision/other", "/data", root=str(root))
    provider.create(script("echo there", mounts=(missing,)))
    assert waits_for(provider, "make the folder on that node").startswith("FailedMount: ")
    assert not (root / "vision" / "other").exists()
    (root / "vision" / "other").mkdir()
    once(provider, "exited")
    assert (seen(provider) or Observed(ID, kernel().labels, "lost")).reason == "exit"


def test_a_root_that_the_cluster_does_not_name_is_refused(pair: Cluster, root: Path) -> None:
    for options in ({}, {"hostPathRoots": [str(root / "vision")]}, {"hostPathRoots": [f"{root}x"]}):
        with pytest.raises(KernelRefused, match="hostPathRoots"):
            pair.open(**options).create(script("true", mounts=(of_root(root),)))
    provider = pair.open(hostPathRoots=[str(root)])
    for mount in (
        Mount("/etc", "/data", root=str(root)),
        Mount(f"{root}/../etc", "/data", root=str(root)),
        Mount("/etc/x/y", "/data", root="/etc"),
        Mount("/etc/x/y", "/data"),
    ):
        with pytest.raises(KernelRefused, match="mount /"):
            provider.create(script("true", mounts=(mount,)))
    assert pair.left() == []


@pytest.fixture
def claim(pair: Cluster) -> Iterator[Claim]:
    """A claim of a storage class of its own; all of them are gone afterwards, with what was made for them."""
    made: list[str] = []

    def new(size: int = 5 * MIB, modes: tuple[str, ...] = ("ReadWriteOnce",), **storage: Any) -> VolumeFolder:
        name = f"{pair.namespace}-{len(made)}"
        if storage:
            pair.lab.api.create(STORAGE, {"metadata": {"name": name}, **storage})
        made.append(name)
        wanted = VolumeClaim(pair.namespace, "data-0123456789", modes, size, name)
        return VolumeFolder(VOLUME, "", "", "", host="claims", namespace=pair.namespace, claim=wanted)

    yield new
    pair.lab.api.call("DELETE", f"{pair.path('pods')}?gracePeriodSeconds=1")
    pair.lab.api.call("DELETE", pair.path("persistentvolumeclaims"))
    for name in made:
        pair.lab.kubectl("delete", "storageclass", name, "--ignore-not-found")
        pair.lab.kubectl("delete", "persistentvolume", name, "--ignore-not-found", "--wait=false")
    path = pair.path("persistentvolumeclaims")
    until(lambda: not pair.lab.api.get(path)["items"], "the claims are gone", pause=0.1)


def volume_for(cluster: Cluster, folder: VolumeFolder, path: Path, **spec: Any) -> None:
    """A PersistentVolume of an administrator's, for that claim's class."""
    assert folder.claim is not None
    body = {
        "metadata": {"name": folder.claim.storage_class},
        "spec": {
            "capacity": {"storage": "10Mi"}, "accessModes": list(folder.claim.access_modes),
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": folder.claim.storage_class,
            "hostPath": {"path": str(path)}, **spec,
        },
    }  # fmt: skip
    cluster.lab.api.create(f"{CORE}/persistentvolumes", body)


def of_claim(folder: VolumeFolder, sub_path: str = "", *, read_only: bool = False) -> Mount:
    assert folder.claim is not None
    return Mount(f"/{sub_path}", "/data", read_only, "/", sub_path=sub_path, claim=folder.claim.name)


def storage_of(cluster: Cluster) -> KubernetesStorage:
    return KubernetesStorage(cluster.client)


def test_a_claim_is_made_bound_and_outlives_its_sessions(pair: Cluster, claim: Claim, tmp_path: Path) -> None:
    folder, storage, provider = claim(), storage_of(pair), pair.open()
    assert storage.observe([folder])[VOLUME].state == "absent"
    tmp_path.chmod(0o777)
    volume_for(pair, folder, tmp_path)
    storage.make(folder)
    storage.make(folder)
    until(lambda: not storage.observe([folder])[VOLUME].why, "it is bound", pause=0.1)
    state = storage.observe([folder])[VOLUME]
    assert (state.state, state.size, state.quota) == ("there", 5 * MIB, 10 * MIB)
    said_by(pair, provider, "echo kept >/data/x", of_claim(folder))
    assert (tmp_path / "x").read_text() == "kept\n"
    said = said_by(
        pair, provider, "cat /data/x; touch /data/y || echo no", of_claim(folder, read_only=True)
    )  # Of output and errors, the one may come before the other.
    assert sorted(said.splitlines()) == ["kept", "no", "touch: /data/y: Read-only file system"]
    said_by(pair, provider, "echo 7 >/data/7", of_claim(folder, "runs/a"))
    assert (tmp_path / "runs" / "a" / "7").read_text() == "7\n"
    assert pair.get("persistentvolumeclaims", "data-0123456789")["status"]["phase"] == "Bound"


def test_a_deleted_volumes_claim_waits_in_the_trash(pair: Cluster, claim: Claim, tmp_path: Path) -> None:
    folder, storage = claim(), storage_of(pair)
    trash = TrashLocation("claims", "", "", namespaces=(pair.namespace,))
    record = TrashedVolume(VOLUME, "e-1", "claims", "x", 7.5, "c1", {"kind": "Volume"})
    storage.make(folder)
    storage.trash(folder, record)
    storage.trash(folder, record)
    assert storage.trashed(trash) == (record,)
    assert storage.trashed(TrashLocation("others", "", "", namespaces=(pair.namespace,))) == ()
    assert "in the trash" not in storage.observe([folder])[VOLUME].why
    with pytest.raises(VolumeRefused, match="bai volumes restore vision/data"):
        storage.make(folder)
    storage.restore(trash, "e-1")
    storage.make(folder)
    assert storage.trashed(trash) == () and storage.observe([folder])[VOLUME].state == "there"
    with pytest.raises(VolumeRefused, match="e-1 is not there"):
        storage.purge(trash, "e-1")
    storage.trash(folder, record)
    storage.purge(trash, "e-1")
    until(lambda: storage.observe([folder])[VOLUME].state == "absent", "it is gone", pause=0.1)
    storage.trash(folder, record)


def test_what_never_changes_of_a_claim_is_refused(pair: Cluster, claim: Claim) -> None:
    storage, folder = storage_of(pair), claim(provisioner="test.example/none")
    assert folder.claim is not None
    storage.make(folder)
    has = folder.claim
    for size, modes, storage_class, why in (
        (4 * MIB, has.access_modes, has.storage_class, "asks for 5MiB, and cannot shrink to 4MiB"),
        (6 * MIB, has.access_modes, has.storage_class, "spec is immutable after creation"),
        (has.size, ("ReadWriteMany",), has.storage_class, "has accessModes ReadWriteOnce"),
        (has.size, has.access_modes, "other", f"of storage class {has.storage_class}"),
    ):
        other = VolumeClaim(has.namespace, has.name, modes, size, storage_class)
        changed = VolumeFolder(VOLUME, "", "", "", host="claims", namespace=has.namespace, claim=other)
        with pytest.raises(VolumeRefused, match=why):
            storage.make(changed)
    another = VolumeFolder("Volume/vision/b", "", "", "", namespace=has.namespace, claim=has)
    assert "is Volume/vision/data" in storage.observe([another])["Volume/vision/b"].why
    pair.lab.kubectl("-n", pair.namespace, "label", "pvc", has.name, "app.kubernetes.io/managed-by-")
    with pytest.raises(VolumeRefused, match="not bai's"):
        storage.make(folder)


def test_a_claim_grows_where_its_class_lets_it(pair: Cluster, claim: Claim, tmp_path: Path) -> None:
    folder = claim(provisioner="kubernetes.io/no-provisioner", allowVolumeExpansion=True)
    volume_for(pair, folder, tmp_path)
    storage = storage_of(pair)
    storage.make(folder)
    until(lambda: not storage.observe([folder])[VOLUME].why, "it is bound", pause=0.1)
    assert folder.claim is not None
    more = VolumeClaim(folder.claim.namespace, folder.claim.name, ("ReadWriteOnce",), 8 * MIB)
    storage.make(VolumeFolder(VOLUME, "", "", "", namespace=pair.namespace, claim=more))
    assert storage.observe([folder])[VOLUME].size == 8 * MIB


def test_a_claim_without_a_volume_is_why_it_waits(pair: Cluster, claim: Claim) -> None:
    folder, provider = claim(), pair.open()
    storage_of(pair).make(folder)
    provider.create(script("true", mounts=(of_claim(folder),)))
    said = waits_for(provider, "ProvisioningFailed")
    assert said.startswith("claim data-0123456789 is Pending: ProvisioningFailed: storageclass")
    assert "`kubectl get storageclasses`" in said


def test_provisioners_learn_where_the_first_pod_is(pair: Cluster, claim: Claim) -> None:
    """bai is the scheduler of its pods: nobody else would tell."""
    folder = claim(provisioner="test.example/none", volumeBindingMode="WaitForFirstConsumer")
    provider = pair.open()
    storage_of(pair).make(folder)
    provider.create(script("true", mounts=(of_claim(folder),)))
    found = pair.get("persistentvolumeclaims", "data-0123456789")
    assert found["metadata"]["annotations"][SELECTED_NODE] == "n0"
    assert "see the provisioner's log" in waits_for(provider, "ExternalProvisioning")


def test_a_claim_that_is_gone_is_said(pair: Cluster, claim: Claim) -> None:
    with pytest.raises(Exception, match=r"there is no claim .*: the next plan makes it"):
        pair.open().create(script("true", mounts=(of_claim(claim()),)))


def test_a_namespace_admits_what_its_standard_allows(pair: Cluster, claim: Claim, root: Path) -> None:
    """Claims always; exports from `baseline` on, folders of nodes only where everything is."""
    folders = {
        "hostPath": VolumeFolder("Volume/a", "", str(root), "vision/data", namespace=pair.namespace),
        "nfs": VolumeFolder(
            "Volume/b", "", "/export", "vision/data", namespace=pair.namespace, server="filer.example"
        ),
    }
    standard = "pod-security.kubernetes.io/enforce"
    try:
        for level, refused in (
            ("restricted", {"hostPath", "nfs"}),
            ("baseline", {"hostPath"}),
            ("privileged", set()),
        ):
            pair.lab.kubectl("label", "--overwrite", "namespace", pair.namespace, f"{standard}={level}")
            wanted = {folders[name].volume for name in refused}

            def holds(wanted: set[str] = wanted) -> bool:
                """The API server's own view of the namespace is a moment behind. What is admitted once is
                not asked for again by the same storage."""
                with contextlib.closing(storage_of(pair)) as one:
                    return one.observe(list(folders.values())).keys() == wanted

            until(holds, f"{level} holds")
            storage = storage_of(pair)
            found = storage.observe(list(folders.values()))
            for name in refused:
                assert "violates PodSecurity" in found[folders[name].volume].why
                with pytest.raises(VolumeRefused, match="violates PodSecurity"):
                    storage.make(folders[name])
            for name in folders.keys() - refused:
                storage.make(folders[name])
        pair.lab.kubectl("label", "--overwrite", "namespace", pair.namespace, f"{standard}=restricted")
        folder = claim()
        storage.make(folder)
        pair.open().create(script("true", mounts=(of_claim(folder),)))
    finally:
        pair.lab.kubectl("label", "namespace", pair.namespace, f"{standard}-")


def test_an_export_is_asked_for_as_it_is_written(pair: Cluster) -> None:
    """This machine's kernel may have no NFS, and no server is there: what is asked is what counts."""
    provider = pair.open()
    mount = Mount("/export/vision/data/runs/7", "/data", True, "/export", (), "runs/7", "127.0.0.1")
    provider.create(script("true", mounts=(mount,)))
    found = pair.get("pods", ID)["spec"]
    assert {"name": "volume-1", "nfs": {"server": "127.0.0.1", "path": "/export/vision/data"}} in found[
        "volumes"
    ]
    (container,) = found["containers"]
    assert container["volumeMounts"][-1] == {
        "name": "volume-1", "mountPath": "/data", "subPath": "runs/7", "readOnly": True,
    }  # fmt: skip
    assert "volume-1" in waits_for(provider, "FailedMount")


@pytest.mark.parametrize("sub_path", ["../b", "a/../../b", "/etc", ".."])
def test_a_sub_path_that_leads_out_of_its_volume_is_refused(pair: Cluster, root: Path, sub_path: str) -> None:
    """Documents cannot say so; nor does the provider believe what it is told, nor the API server."""
    provider = pair.open(hostPathRoots=[str(root)])
    for mount in (
        Mount(f"{root}/vision/data", "/data", False, str(root), sub_path=sub_path),
        Mount("/", "/data", False, "/", sub_path=sub_path, claim="data-0123456789"),
        Mount("/export/vision/data", "/data", False, "/export", sub_path=sub_path, server="filer"),
    ):
        with pytest.raises(KernelRefused, match="leads out of its volume"):
            provider.create(script("true", mounts=(mount,)))
