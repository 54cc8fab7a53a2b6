"""Volumes of a Kubernetes cluster as the plan sees them. Pure."""

from __future__ import annotations

from pathlib import Path

from providers.base import Mount
from providers.storage.base import FolderState, VolumeClaim, VolumeFolder
from reconciler.plan.actions.kernel_specs import volume_mounts
from reconciler.plan.actions.volume_actions import folder_command, folder_differences
from reconciler.sources.desired import make_desired
from reconciler.values.state import Desired
from reconciler.values.volume_folders import trash_entry, trash_locations, volume_folders
from schemas.kinds.session import Session
from schemas.kinds.storage import Volume
from schemas.loading.loader import load_directory

DOCUMENTS = """
apiVersion: bai/v1
kind: Cluster
metadata: {{name: prod}}
spec: {{provider: kubernetes, kubernetes: {{namespace: "{namespace}", hostPathRoots: [/mnt]}}}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
spec: {{}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: vision}}
spec: {{uid: 4711}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: speech}}
spec: {{}}
---
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: claims}}
spec: {{type: pvc, pvc: {{size: 1GiB}}}}
---
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: filer}}
spec: {{type: nfs, nfs: {{server: filer.example, path: /export/}}}}
---
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: fast}}
spec: {{type: weka, root: /mnt/fast/}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: a, project: vision}}
spec: {{host: claims, size: 2GiB}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: b, project: vision}}
spec: {{host: filer}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: c}}
spec: {{host: fast, path: "shared/my c"}}
---
apiVersion: bai/v1
kind: Session
metadata: {{name: s, project: vision}}
spec:
  image: i:1
  mounts:
    - {{volume: a, path: /a, subPath: x/y, readOnly: true}}
    - {{volume: b, path: /b, subPath: z}}
    - {{volume: c, path: /c}}
"""
NAME = "a-6dc59e8fde"


def desired(folder: Path, namespace: str = "bai") -> Desired:
    (folder / "all.yaml").write_text(DOCUMENTS.format(namespace=namespace))
    return make_desired(load_directory(folder), "prod", repo="here", commit="")


def test_each_volume_is_what_its_storage_host_is(tmp_path: Path) -> None:
    found = volume_folders(desired(tmp_path))
    a, b, c = (found[name] for name in ("Volume/vision/a", "Volume/vision/b", "Volume/c"))
    assert a.claim == VolumeClaim("bai", NAME, ("ReadWriteOnce",), 2 * 2**30)
    assert (a.source, a.node, a.place) == (f"pvc bai/{NAME}", "", f"pvc bai/{NAME}")
    assert (b.source, b.namespace, b.claim) == ("filer.example:/export/vision/b", "bai", None)
    assert (c.source, c.root, c.path) == ("/mnt/fast/shared/my c", "/mnt/fast", "shared/my c")
    assert folder_command(b) == (
        "on filer.example, as root: install -d -m 2775 -o 4711 -g 4711 /export/vision/b"
    )
    assert folder_command(c) == (
        "on each node that mounts it, as root: install -d -m 2775 '/mnt/fast/shared/my c'"
    )


def test_sessions_mount_them_by_what_they_are(tmp_path: Path) -> None:
    found = desired(tmp_path)
    session = found.resources["Session/vision/s"]
    assert isinstance(session, Session)
    assert volume_mounts(found, session) == (
        Mount("/x/y", "/a", True, "/", (), "x/y", "", NAME),
        Mount("/export/vision/b/z", "/b", False, "/export/", (), "z", "filer.example"),
        Mount("/mnt/fast/shared/my c", "/c", False, "/mnt/fast/", ("wekafs",)),
    )


def test_a_claim_is_in_its_projects_namespace_and_so_is_its_trash(tmp_path: Path) -> None:
    found = desired(tmp_path, "team-{project}")
    folder = volume_folders(found)["Volume/vision/a"]
    assert folder.claim is not None and folder.claim.namespace == "team-vision"
    (trash,) = trash_locations(found)
    assert (trash.host, set(trash.namespaces)) == ("claims", {"team-vision", "team-speech"})
    record = trash_entry(folder, {}, 0.0, "")
    assert record.path == f"team-vision/{NAME}"
    assert trash.place_of(record.path) == f"pvc team-vision/{NAME}"


def test_the_name_of_a_claim_is_its_own(tmp_path: Path) -> None:
    """Names that end alike, or are too long for a name in Kubernetes."""
    names = set()
    for project, name in (
        ("a-b", "c"),
        ("a", "b-c"),
        (None, "c"),
        ("p", "x" * 63),
        ("p", "x" * 62),
        ("q", "x" * 63),
    ):
        metadata = {"name": name, **({"project": project} if project else {})}
        document = {"apiVersion": "bai/v1", "kind": "Volume", "metadata": metadata, "spec": {}}
        named = Volume.model_validate(document).claim_name
        assert len(named) <= 63
        names.add(named)
    assert len(names) == 6


def test_a_claim_that_asks_for_too_little_is_not_what_was_applied(tmp_path: Path) -> None:
    folder: VolumeFolder = volume_folders(desired(tmp_path))["Volume/vision/a"]
    there = FolderState("there", quota=2**31, size=2**31)
    assert list(folder_differences(folder, there)) == []
    less = FolderState("there", quota=2**31, size=2**30)
    assert list(folder_differences(folder, less)) == ["asks for 1GiB instead of 2GiB"]
    assert list(folder_differences(folder, FolderState("absent"))) == ["is gone"]
    refused = FolderState("refused", "claim bai/a is not bai's")
    assert list(folder_differences(folder, refused)) == ["cannot be used: claim bai/a is not bai's"]
