"""Folders of volumes are made, dressed, moved aside and brought back, and no link leads out of a root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from providers.base import Mount
from providers.machines.base import Done
from providers.storage.base import TrashedVolume, TrashLocation, VolumeFolder
from providers.storage.mounts import mount_problem, mount_problem_here
from providers.storage.nodes import NodeStorage
from schemas.problems.errors.node import VolumeRefused
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable

ROOT = os.geteuid() == 0


class Here:
    """This machine, by way of its commands: what `Machine` asks of `run`."""

    name = "here"

    def __init__(self) -> None:
        self.calls = 0

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Done:
        self.calls += 1
        words = [sys.executable if argv[0] == "python3" else argv[0], *argv[1:]]
        done = subprocess.run(words, input=stdin, capture_output=True, timeout=timeout, check=False)
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def here() -> Here:
    return Here()


@pytest.fixture
def storage(here: Here) -> NodeStorage:
    return NodeStorage(lambda name: here)  # type: ignore[arg-type,return-value]


@pytest.fixture
def folder(tmp_path: Path) -> VolumeFolder:
    (tmp_path / "root").mkdir()
    return VolumeFolder("Volume/vision/data", "here", str(tmp_path / "root"), "vision/data", host="disk")


def record(folder: VolumeFolder, entry: str = "20260101T000000Z-data-abc") -> TrashedVolume:
    return TrashedVolume(folder.volume, entry, folder.host, folder.path, 1.5, "c0ffee", {"kind": "Volume"})


def trash_of(folder: VolumeFolder) -> TrashLocation:
    return TrashLocation(folder.host, folder.node, folder.root)


def test_a_folder_is_made_with_its_mode_once(storage: NodeStorage, folder: VolumeFolder) -> None:
    wanted = replace(folder, mode=0o2770)
    assert storage.observe([wanted])[wanted.volume].state == "absent"
    storage.make(wanted)
    (Path(wanted.source) / "kept").write_text("x")
    storage.make(wanted)
    seen = storage.observe([wanted])[wanted.volume]
    assert (seen.state, seen.mode, seen.uid) == ("there", 0o2770, os.geteuid())
    assert (Path(wanted.source) / "kept").read_text() == "x"


def test_what_is_not_asked_for_stays(storage: NodeStorage, folder: VolumeFolder) -> None:
    Path(folder.source).mkdir(parents=True)
    Path(folder.source).chmod(0o711)
    storage.make(folder)
    assert storage.observe([folder])[folder.volume].mode == 0o711


@pytest.mark.skipif(not ROOT, reason="only root gives folders away")
def test_the_owner_is_set_and_new_folders_below_are_theirs(
    storage: NodeStorage, folder: VolumeFolder
) -> None:
    wanted = replace(folder, uid=4711, gid=4712, mode=0o750)
    storage.make(wanted)
    seen = storage.observe([wanted])[wanted.volume]
    assert (seen.uid, seen.gid, seen.mode) == (4711, 4712, 0o750)
    assert mount_problem_here([Mount(f"{wanted.source}/runs/one", "/data", root=wanted.root)]) == ""
    made = (Path(wanted.source) / "runs" / "one").stat()
    assert (made.st_uid, made.st_gid) == (4711, 4712)


@pytest.mark.skipif(not ROOT, reason="only root gives folders away")
def test_what_is_made_belongs_to_whom_it_is_made_for_and_what_was_there_stays(
    storage: NodeStorage, folder: VolumeFolder
) -> None:
    storage.make(replace(folder, new_owner=4713))
    made, above = Path(folder.source).stat(), Path(folder.source).parent.stat()
    assert (made.st_uid, made.st_gid, above.st_uid) == (4713, 4713, 0)
    storage.make(replace(folder, new_owner=4714))
    assert Path(folder.source).stat().st_uid == 4713
    said = replace(folder, path="vision/other", uid=4711, gid=4712, new_owner=4713)
    storage.make(said)
    other = Path(said.source).stat()
    assert (other.st_uid, other.st_gid) == (4711, 4712)


def test_giving_away_without_being_root_is_refused(folder: VolumeFolder) -> None:
    if ROOT:
        pytest.skip("root may")
    with pytest.raises(VolumeRefused, match="only root"):
        NodeStorage(lambda name: Here()).make(replace(folder, uid=0))  # type: ignore[arg-type,return-value]


def test_links_on_the_way_are_refused(storage: NodeStorage, folder: VolumeFolder, tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "data").mkdir(parents=True)
    (Path(folder.root) / "vision").symlink_to(private)
    for act in (storage.make, lambda one: storage.trash(one, record(one))):
        with pytest.raises(VolumeRefused, match="vision is a link"):
            act(folder)
    seen = storage.observe([folder])[folder.volume]
    assert (seen.state, "link" in seen.why) == ("refused", True)
    assert [path.name for path in private.iterdir()] == ["data"]


def test_a_root_that_is_not_mounted_is_not_filled(storage: NodeStorage, folder: VolumeFolder) -> None:
    wanted = replace(folder, file_systems=("nfs", "nfs4"))
    with pytest.raises(VolumeRefused, match=r"is not mounted: it is on \S+ at .*, not on nfs or nfs4"):
        storage.make(wanted)
    assert list(Path(folder.root).iterdir()) == []
    mount = Mount(folder.source, "/data", root=folder.root, file_systems=("lustre",))
    assert "is not mounted" in mount_problem_here([mount])
    assert list(Path(folder.root).iterdir()) == []


def test_deleting_moves_aside_and_restoring_brings_back(storage: NodeStorage, folder: VolumeFolder) -> None:
    storage.make(folder)
    (Path(folder.source) / "weights").write_text("precious")
    storage.trash(folder, record(folder))
    storage.trash(folder, record(folder, "another"))
    assert not Path(folder.source).exists()
    [waiting] = storage.trashed(trash_of(folder))
    assert waiting == record(folder)
    storage.make(folder)
    storage.restore(trash_of(folder), waiting.entry)
    assert (Path(folder.source) / "weights").read_text() == "precious"
    assert storage.trashed(trash_of(folder)) == ()


def test_restoring_does_not_overwrite(storage: NodeStorage, folder: VolumeFolder) -> None:
    storage.make(folder)
    storage.trash(folder, record(folder))
    storage.make(folder)
    (Path(folder.source) / "new").write_text("")
    with pytest.raises(VolumeRefused, match="there again"):
        storage.restore(trash_of(folder), record(folder).entry)
    assert len(storage.trashed(trash_of(folder))) == 1


def test_purging_is_for_good_and_follows_no_link(
    storage: NodeStorage, folder: VolumeFolder, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kept").write_text("x")
    storage.make(folder)
    (Path(folder.source) / "link").symlink_to(tmp_path / "other")
    (Path(folder.source) / "deep" / "deeper").mkdir(parents=True)
    storage.trash(folder, record(folder))
    storage.purge(trash_of(folder), record(folder).entry)
    assert storage.trashed(trash_of(folder)) == ()
    assert list((Path(folder.root) / ".bai-trash").iterdir()) == []
    assert (tmp_path / "other" / "kept").exists()
    for entry in (record(folder).entry, "../vision", "", "a/b"):
        with pytest.raises(VolumeRefused):
            storage.purge(trash_of(folder), entry)


def test_an_entry_that_was_never_filled_is_swept(storage: NodeStorage, folder: VolumeFolder) -> None:
    storage.make(folder)
    begun = Path(folder.root) / ".bai-trash" / "begun"
    begun.mkdir(parents=True)
    (begun / "record.json").write_text(json.dumps({"volume": folder.volume, "path": folder.path}))
    assert storage.trashed(trash_of(folder)) == ()
    storage.trash(folder, record(folder))
    assert not begun.exists()


def test_usage_counts_each_file_once(storage: NodeStorage, folder: VolumeFolder) -> None:
    storage.make(folder)
    big = Path(folder.source) / "sub" / "big"
    big.parent.mkdir()
    big.write_bytes(os.urandom(1 << 20))
    os.link(big, big.with_name("again"))
    assert storage.observe([folder])[folder.volume].used is None
    seen = storage.observe([folder], usage=True)[folder.volume]
    assert seen.whole
    assert seen.used is not None
    assert 1 << 20 <= seen.used < 1.5 * (1 << 20)


def test_many_folders_are_one_call_per_node(storage: NodeStorage, folder: VolumeFolder, here: Here) -> None:
    many = [replace(folder, volume=f"Volume/v{n}", path=f"v{n}") for n in range(20)]
    seen = storage.observe(many)
    assert {each.state for each in seen.values()} == {"absent"}
    assert here.calls == 1


def test_a_node_that_cannot_be_reached_is_unknown(folder: VolumeFolder) -> None:
    class Far(Here):
        def run(self, argv: Sequence[str], **options: object) -> Done:  # type: ignore[override]
            raise ProviderUnavailable(provider="far", why="no route")

    storage = NodeStorage(lambda name: Far())  # type: ignore[arg-type,return-value]
    seen = storage.observe([folder])[folder.volume]
    assert (seen.state, "no route" in seen.why) == ("unknown", True)
    with pytest.raises(ProviderUnavailable):
        storage.make(folder)


def test_a_node_without_python_says_so(folder: VolumeFolder) -> None:
    class Bare(Here):
        def run(self, argv: Sequence[str], **options: object) -> Done:  # type: ignore[override]
            return Done(127, b"", b"")

    with pytest.raises(ProviderError, match="python3 is not installed"):
        NodeStorage(lambda name: Bare()).make(folder)  # type: ignore[arg-type,return-value]


def test_mounts_are_checked_on_the_machine(here: Here, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "data").mkdir(parents=True)
    good = Mount(f"{root}/data/sub", "/data", root=str(root))
    assert mount_problem(here, [good]) == ""  # type: ignore[arg-type]
    assert (root / "data" / "sub").is_dir()
    bad = Mount(f"{root}/../etc", "/data", root=str(root))
    assert "`..`" in mount_problem(here, [good, bad])  # type: ignore[arg-type]
    assert mount_problem(here, []) == ""  # type: ignore[arg-type]
    assert here.calls == 1


@pytest.mark.skipif(not ROOT, reason="only root mounts")
def test_what_somebody_has_mounted_stays(storage: NodeStorage, folder: VolumeFolder) -> None:
    storage.make(folder)
    script = 'mount --bind "$0/." /mnt && echo ready && read line'
    held = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, folder.source]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            pytest.skip("nothing can be mounted here")
        with pytest.raises(VolumeRefused, match="has it mounted"):
            storage.trash(folder, record(folder))
        assert Path(folder.source).is_dir()
        process.communicate(b"\n")
    storage.trash(folder, record(folder))
    assert not Path(folder.source).exists()
