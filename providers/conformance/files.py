"""Folders that are looked at, and files that are written (`providers.abilities.KeepsFiles`)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from providers.abilities import CopiesFiles, KeepsFiles
from providers.base import Provider
from providers.conformance.harness import ProviderHarness
from providers.conformance.kernels import Commands, StartedKernels, once, require_ability
from providers.machines.files.folder_view import PREFIX
from providers.machines.files.one_file_archive import archived_file
from schemas.problems.errors.kernel import FilesRefused, KernelNotFound, NotRunning

MADE = """
mkdir -p look/sub 'look/a
b' && cd look && printf 12345 >five && ln -s /etc/passwd link && ln -s sub short && mkfifo fifo
printf x >"$(printf 'raw\\377')" && printf x >'<img src=x>' && touch -d '2001-02-03 04:05:06' sub
"""
ARCHIVED = (
    ("look/a\nb/", ""), ("look/five", "12345"), ("look/link", "-> /etc/passwd"), ("look/short", "-> sub"),
    ("look/fifo|", ""), ("look/raw\udcff", "x"), ("look/<img src=x>", "x"), ("look/sub/", ""),
)  # fmt: skip
"""The same where nothing runs that would make it: folders end with `/`, what is neither that nor a file with
`|`."""
_MODIFIED = 981_173_106
MANY = "mkdir many && cd many && i=0 && while [ $i -lt 300 ]; do i=$((i + 1)); printf x >f$i; done"
ARCHIVED_MANY = tuple((f"many/f{number}", "x") for number in range(1, 301))


class Cut(Exception):
    """What is sent breaks off."""


class Place:
    """A kernel, where files are made and read by commands, or by archives where nothing runs."""

    def __init__(
        self, harness: ProviderHarness, provider: Provider, commands: Commands, started: StartedKernels
    ) -> None:
        require_ability(provider, KeepsFiles)
        require_ability(provider, CopiesFiles)
        self.able, self._copies = cast(KeepsFiles, provider), cast(CopiesFiles, provider)
        self._harness, self._provider, self._commands, self._started = harness, provider, commands, started
        if harness.runs_programs:
            self.id = started.ready("runs").id
        else:
            self.id = provider.create(harness.spec("files", "")).id

    def make(self, script: str, archived: Sequence[tuple[str, str]]) -> None:
        if self._harness.runs_programs:
            assert self._commands.run(self.id, "sh", "-c", script).code == 0
        else:
            self._copies.copy_in(self.id, ".", _archive(archived))

    def content(self, path: str) -> bytes:
        if self._harness.runs_programs:
            return self._commands.run(self.id, "cat", path).out
        return b"".join(archived_file(self._copies.copy_out(self.id, path)).pieces)

    def owners(self, *paths: str) -> set[bytes | int]:
        """Of some paths, as numbers."""
        if self._harness.runs_programs:
            return set(self._commands.run(self.id, "stat", "-c", "%u", *paths).out.split())
        heads = (next(iter(self._copies.copy_out(self.id, path))) for path in paths)
        return {tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape").uid for head in heads}

    @property
    def nobody(self) -> str:
        return self._harness.spec("nobody", "").id

    def ended(self) -> str:
        if self._harness.runs_programs:
            return self._started.ended("ends").id
        spec = self._harness.spec("files-ended", "")
        self._provider.create(spec)
        self._provider.stop(spec.id, grace=0.0)
        return once(self._provider, spec.id, "exited").id


def _archive(members: Sequence[tuple[str, str]]) -> Iterator[bytes]:
    for name, said in members:
        member = tarfile.TarInfo(name.rstrip("/|"))
        member.mtime, data = _MODIFIED, b""
        if name.endswith("/"):
            member.type = tarfile.DIRTYPE
        elif name.endswith("|"):
            member.type = tarfile.FIFOTYPE
        elif said.startswith("-> "):
            member.type, member.linkname = tarfile.SYMTYPE, said.removeprefix("-> ")
        else:
            data = said.encode()
            member.size = len(data)
        yield member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        yield data + bytes(-len(data) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


class Files:
    @pytest.fixture
    def place(
        self, harness: ProviderHarness, provider: Provider, commands: Commands, started: StartedKernels
    ) -> Place:
        return Place(harness, provider, commands, started)

    def test_a_folder_is_listed_with_names_of_any_bytes(self, place: Place) -> None:
        able, kernel_id = place.able, place.id
        place.make(MADE, ARCHIVED)
        found = able.list_files(kernel_id, "look", 100)
        by_name = {each.name: each for each in found.entries}
        assert list(by_name) == ["<img src=x>", "a\nb", "fifo", "five", "link", "raw\udcff", "short", "sub"]
        assert {name: each.kind for name, each in by_name.items()} == {
            "<img src=x>": "file", "a\nb": "folder", "fifo": "other", "five": "file", "link": "link",
            "raw\udcff": "file", "short": "link", "sub": "folder",
        }  # fmt: skip
        assert (found.count, by_name["five"].size, by_name["link"].size) == (8, 5, None)
        modified = by_name["sub"].modified
        assert modified is not None and 981_000_000 < modified < 981_300_000
        assert able.list_files(kernel_id, "look/short", 100).entries == ()
        assert able.list_files(kernel_id, "look/a\nb", 100).count == 0

    def test_a_large_folder_is_cut(self, place: Place) -> None:
        able, kernel_id = place.able, place.id
        place.make(MANY, ARCHIVED_MANY)
        found = able.list_files(kernel_id, "many", 3)
        assert ([each.name for each in found.entries], found.count) == (["f1", "f10", "f100"], 300)

    def test_what_is_no_folder_is_refused(self, place: Place) -> None:
        able, kernel_id = place.able, place.id
        place.make("printf x >plain; ln -s loop loop", (("plain", "x"), ("loop", "-> loop")))
        for path in ("nope", "plain", "loop", "/no/such", "a\0b"):
            with pytest.raises(FilesRefused):
                able.list_files(kernel_id, path, 10)
            with pytest.raises(FilesRefused):
                able.write_file(kernel_id, f"{path}/new", 1, iter([b"x"]))
        with pytest.raises(KernelNotFound):
            able.list_files(place.nobody, "/", 10)
        with pytest.raises(NotRunning):
            able.list_files(place.ended(), "/", 10)

    def test_a_file_is_written_whole_or_not_at_all(self, place: Place) -> None:
        able, kernel_id = place.able, place.id
        place.make("mkdir -p up; printf old >up/there", (("up/", ""), ("up/there", "old")))

        def broken() -> Iterator[bytes]:
            yield b"half" * 50_000
            raise Cut

        with pytest.raises(Cut):
            able.write_file(kernel_id, "up/there", 1_000_000, broken())
        with pytest.raises((FilesRefused, ValueError)):
            able.write_file(kernel_id, "up/there", 10, iter([b"short"]))
        assert [each.name for each in able.list_files(kernel_id, "up", 10).entries] == ["there"]
        assert place.content("up/there") == b"old"
        pieces = [bytes([number]) * 100_000 for number in range(20)]
        able.write_file(kernel_id, "up/there", 2_000_000, iter(pieces))
        able.write_file(kernel_id, "up/it's $x\n", 0, iter(()))
        assert place.content("up/there") == b"".join(pieces)
        names = [each.name for each in able.list_files(kernel_id, "up", 10).entries]
        assert names == ["it's $x\n", "there"] and not any(name.startswith(PREFIX) for name in names)
        assert len(place.owners("up", "up/there")) == 1

    def test_a_folder_is_not_replaced_by_a_file(self, place: Place) -> None:
        able, kernel_id = place.able, place.id
        place.make("mkdir -p stays/inner", (("stays/inner/", ""),))
        for name in ("inner", ".", "..", ""):
            with pytest.raises(FilesRefused):
                able.write_file(kernel_id, f"stays/{name}", 1, iter([b"x"]))
        assert [each.name for each in able.list_files(kernel_id, "stays", 9).entries] == ["inner"]
