"""Files that the fake provider remembers: what conformance does not ask of everybody."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import pytest

from providers.conformance.harness import ProviderHarness
from providers.fake import FakeFileSystem, FakeProvider
from providers.fake.file_system import HOME, ROOM, NoSuchPlace
from schemas.problems.errors.kernel import CopyRefused, FilesRefused, NotRunning
from schemas.problems.errors.provider import ProviderUnavailable
from tests.providers.test_conformance import FakeHarness


@pytest.fixture
def files() -> FakeFileSystem:
    return FakeFileSystem({"a/b.txt": b"one", "top": b"two"}, lambda: 12.0)


def names(files: FakeFileSystem, path: str) -> list[str]:
    return [each.name for each in files.list_folder(path, 100).entries]


def archive(*members: tuple[str, bytes], link: str = "") -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as out:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
        if link:
            member = tarfile.TarInfo("link")
            member.type, member.linkname = tarfile.SYMTYPE, link
            out.addfile(member)
    made.seek(0)
    return made


def test_paths_begin_where_it_works_or_at_the_root(files: FakeFileSystem) -> None:
    assert names(files, ".") == ["a", "top"] and names(files, "/") == ["tmp", "work"]
    assert names(files, "../work/./a/..") == ["a", "top"]
    assert names(files, "/../../..") == ["tmp", "work"], "there is nothing above the root"
    (entry,) = files.list_folder(f"{HOME}/a", 1).entries
    assert (entry.name, entry.kind, entry.size, entry.modified) == ("b.txt", "file", 3, 12.0)


def test_links_lead_anywhere_in_it_and_nowhere_else(files: FakeFileSystem) -> None:
    files.unpack("a", archive(link="/"))
    assert names(files, "a/link") == ["tmp", "work"] and names(files, "a/link/work/a") == ["b.txt", "link"]
    files.write_file("a/link/tmp/x", b"")
    assert names(files, "/tmp") == ["x"]
    with pytest.raises(NoSuchPlace, match="folder"):
        files.list_folder("top", 1)
    with pytest.raises(NoSuchPlace, match="out of the folder"):
        files.unpack("a", archive(("../x", b"")))


def test_there_is_so_much_room(files: FakeFileSystem) -> None:
    files.write_file("large", bytes(ROOM - 6))
    files.write_file("large", bytes(ROOM - 6))  # In its own place.
    with pytest.raises(NoSuchPlace, match="room"):
        files.write_file("small", b"1")
    with pytest.raises(NoSuchPlace, match="room"):
        files.unpack(".", archive(("small", b"1")))
    assert names(files, ".") == ["a", "large", "top"]


@pytest.fixture
def harness() -> FakeHarness:
    return FakeHarness()


def started(harness: ProviderHarness, provider: FakeProvider) -> str:
    return provider.create(harness.spec("one", "")).id


def test_they_are_the_kernels_own_and_go_with_it(harness: FakeHarness) -> None:
    provider = FakeProvider(harness.world)
    harness.world.files_of = lambda kernel: {"name": kernel.spec.id.encode()}
    one = started(harness, provider)
    two = provider.create(harness.spec("two", "")).id
    provider.write_file(one, "sent", 4, iter([b"se", b"nt"]))
    assert [each.name for each in provider.list_files(one, ".", 9).entries] == ["name", "sent"]
    assert [each.name for each in provider.list_files(two, ".", 9).entries] == ["name"]
    assert one.encode() in b"".join(provider.copy_out(one, "name"))
    provider.remove(one)
    started(harness, provider)
    assert [each.name for each in provider.list_files(one, ".", 9).entries] == ["name"]


def test_a_node_that_is_down_shows_none(harness: FakeHarness) -> None:
    provider = FakeProvider(harness.world)
    one = started(harness, provider)
    with harness.cut(harness.nodes[0]), pytest.raises(ProviderUnavailable):
        provider.list_files(one, ".", 9)
    harness.world.die(one)
    with pytest.raises(NotRunning):
        provider.write_file(one, "late", 0, iter(()))


def test_nothing_is_gathered_for_ever(harness: FakeHarness) -> None:
    provider = FakeProvider(harness.world)
    one, count = started(harness, provider), 0

    def endless() -> Iterator[bytes]:
        nonlocal count
        while True:
            count += 1
            yield b"x" * (1 << 20)

    with pytest.raises(FilesRefused):
        provider.write_file(one, "x", 1 << 40, endless())
    with pytest.raises(CopyRefused):
        provider.copy_in(one, ".", endless())
    assert count < 60 and provider.list_files(one, ".", 9).count == 0
