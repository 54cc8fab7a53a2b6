"""Files of volumes are read and written beneath their folder, whatever lies in it."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from providers.machines.base import Process
from providers.machines.local import LocalMachine
from providers.machines.one_file_archive import NoFile
from providers.storage.base import VolumeFolder
from providers.storage.nodes import NodeStorage
from schemas.problems.errors.node import VolumeRefused


class Here(LocalMachine):
    """This machine by way of its commands, as over SSH. `python`: what stands for its Python."""

    python = sys.executable

    def start(self, argv: Sequence[str], *, tty: bool = False) -> Process:
        return super().start([self.python, *argv[1:]], tty=tty)


@pytest.fixture(params=["here", "by its commands"])
def storage(request: pytest.FixtureRequest) -> NodeStorage:
    return NodeStorage(lambda name: None if request.param == "here" else Here(name))


@pytest.fixture
def folder(tmp_path: Path) -> VolumeFolder:
    (tmp_path / "root" / "data").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(b"secret")
    return VolumeFolder("Volume/vision/data", "here", str(tmp_path / "root"), "data", host="disk")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    return tmp_path / "root" / "data"


def content(storage: NodeStorage, folder: VolumeFolder, path: str) -> bytes:
    found = storage.read_file(folder, path)
    data = b"".join(found.pieces)
    assert len(data) == found.size
    return data


def test_files_are_listed_read_packed_and_written(
    storage: NodeStorage, folder: VolumeFolder, inside: Path
) -> None:
    (inside / "sub").mkdir()
    pieces = [bytes([number]) * 100_000 for number in range(20)]
    storage.write_file(folder, "sub/a b", 2_000_000, iter(pieces))
    storage.write_file(folder, "sub/raw\udcff", 0, iter(()))
    assert [each.name for each in storage.list_files(folder, "sub", 10).entries] == ["a b", "raw\udcff"]
    assert [(each.name, each.kind) for each in storage.list_files(folder, "", 10).entries] == [
        ("sub", "folder")
    ]
    assert content(storage, folder, "sub/a b") == b"".join(pieces)
    assert content(storage, folder, "sub/raw\udcff") == b""
    packed = b"".join(storage.read_folder(folder, "sub"))
    with tarfile.open(fileobj=io.BytesIO(packed), errors="surrogateescape") as archive:
        assert sorted(archive.getnames()) == ["sub", "sub/a b", "sub/raw\udcff"]
    with tarfile.open(fileobj=io.BytesIO(b"".join(storage.read_folder(folder, "")))) as archive:
        assert archive.getnames()[:2] == ["data", "data/sub"]
    if os.geteuid() == 0:
        os.chown(inside / "sub", 12345, 23456)
        storage.write_file(folder, "sub/owned", 1, iter([b"x"]))
        found = (inside / "sub" / "owned").stat()
        assert (found.st_uid, found.st_gid) == (12345, 23456)


@pytest.mark.parametrize(
    "path", ["..", "../outside", "a/../../outside", "/etc/passwd", "link", "link/x", "up/outside"]
)
def test_nothing_leads_out(storage: NodeStorage, folder: VolumeFolder, inside: Path, path: str) -> None:
    (inside / "link").symlink_to(inside.parent.parent / "outside")
    (inside / "up").symlink_to(inside.parent.parent)
    for call in (storage.read_file, storage.read_folder):
        with pytest.raises(VolumeRefused):
            call(folder, path)
    with pytest.raises(VolumeRefused):
        storage.list_files(folder, path, 10)
    if path != "link":
        with pytest.raises(VolumeRefused):
            storage.write_file(folder, path, 1, iter([b"x"]))
    assert (inside.parent.parent / "outside").read_bytes() == b"secret"
    assert not (inside.parent.parent / "x").exists()


def test_links_and_devices_are_told_and_not_opened(
    storage: NodeStorage, folder: VolumeFolder, inside: Path
) -> None:
    (inside / "link").symlink_to("/etc/passwd")
    os.mkfifo(inside / "pipe")
    (inside / "plain").write_bytes(b"x")
    assert {each.name: each.kind for each in storage.list_files(folder, "", 10).entries} == {
        "link": "link", "pipe": "other", "plain": "file",
    }  # fmt: skip
    for name in ("link", "pipe", "", "none"):
        with pytest.raises(VolumeRefused):
            storage.read_file(folder, name)
    with tarfile.open(fileobj=io.BytesIO(b"".join(storage.read_folder(folder, "")))) as archive:
        assert {each.name: each.type for each in archive} == {
            "data": tarfile.DIRTYPE, "data/link": tarfile.SYMTYPE, "data/plain": tarfile.REGTYPE,
        }  # fmt: skip
    storage.write_file(folder, "link", 3, iter([b"new"]))
    assert (inside / "link").read_bytes() == b"new" and not (inside / "link").is_symlink()


def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(
    storage: NodeStorage, folder: VolumeFolder, inside: Path
) -> None:
    (inside / "swapped").mkdir()
    (inside / "swapped" / "outside").write_bytes(b"inside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(inside / "swapped", inside / "away")
            os.symlink(inside.parent.parent, inside / "swapped")
            os.unlink(inside / "swapped")
            os.rename(inside / "away", inside / "swapped")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(20):
            try:
                assert content(storage, folder, "swapped/outside") == b"inside"
            except VolumeRefused:
                continue
    finally:
        over.set()
        swapper.join()


class Cut(Exception):
    """What is sent breaks off."""


def test_what_breaks_off_leaves_nothing(storage: NodeStorage, folder: VolumeFolder, inside: Path) -> None:
    (inside / "there").write_bytes(b"old")

    def broken() -> Iterator[bytes]:
        yield b"x" * 300_000
        raise Cut

    with pytest.raises(Cut):
        storage.write_file(folder, "there", 1_000_000, broken())
    with pytest.raises(VolumeRefused, match="whole"):
        storage.write_file(folder, "there", 10, iter([b"short"]))
    assert [each.name for each in inside.iterdir()] == ["there"]
    assert (inside / "there").read_bytes() == b"old"


def test_a_quota_holds_also_where_root_writes_and_no_file_system_does(
    storage: NodeStorage, folder: VolumeFolder, inside: Path
) -> None:
    (inside / "there").write_bytes(b"x" * 500_000)
    small = replace(folder, quota=1_000_000)
    asked: list[int] = []

    def data() -> Iterator[bytes]:
        for _ in range(10):
            asked.append(1)
            yield b"x" * 60_000

    with pytest.raises(VolumeRefused, match="room for"):
        storage.write_file(small, "large", 600_000, data())
    storage.write_file(small, "fits", 300_000, iter([b"x" * 300_000]))
    assert sorted(each.name for each in inside.iterdir()) == ["fits", "there"]


def test_what_becomes_shorter_is_not_taken_for_whole(
    storage: NodeStorage, folder: VolumeFolder, inside: Path
) -> None:
    large = inside / "large"
    with large.open("wb") as file:
        file.truncate(1 << 30)
    found = storage.read_file(folder, "large")
    next(found.pieces)
    os.truncate(large, 0)
    with pytest.raises(Exception, match=r"shorter|whole"):
        for _ in found.pieces:
            pass


def nonsense(text: str) -> Callable[[str], Here]:
    class Liar(Here):
        def start(self, argv: Sequence[str], *, tty: bool = False) -> Process:
            return LocalMachine.start(self, ["sh", "-c", f"head -n 1 >/dev/null; printf '{text}'"], tty=tty)

    return Liar


@pytest.mark.parametrize("text", ["", "no", "[]", "{}", '{"size": -1}', '{"size": "x"}', '{"entries": 3}'])
def test_a_node_that_lies_is_told_as_such(folder: VolumeFolder, text: str) -> None:
    storage = NodeStorage(nonsense(text))
    with pytest.raises(VolumeRefused):
        storage.read_file(folder, "x")
    with pytest.raises(VolumeRefused):
        storage.list_files(folder, "", 10)
    short = NodeStorage(nonsense('{"size": 10}\\nabc'))
    with pytest.raises(NoFile):
        b"".join(short.read_file(folder, "x").pieces)
