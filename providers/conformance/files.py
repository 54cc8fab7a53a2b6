"""Folders that are looked at, and files that are written (`providers.abilities.KeepsFiles`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from providers.abilities import KeepsFiles
from providers.base import Provider
from providers.conformance.harness import ProviderHarness
from providers.conformance.kernels import Commands, StartedKernels, require_ability, require_programs
from providers.machines.folder_view import PREFIX
from schemas.problems.errors.kernel import FilesRefused, KernelNotFound, NotRunning

MADE = """
mkdir -p look/sub 'look/a
b' && cd look && printf 12345 >five && ln -s /etc/passwd link && ln -s sub short && mkfifo fifo
printf x >"$(printf 'raw\\377')" && printf x >'<img src=x>' && touch -d '2001-02-03 04:05:06' sub
"""
MANY = "mkdir many && cd many && i=0 && while [ $i -lt 300 ]; do i=$((i + 1)); printf x >f$i; done"


class Cut(Exception):
    """What is sent breaks off."""


class Files:
    def test_a_folder_is_listed_with_names_of_any_bytes(
        self, harness: ProviderHarness, provider: Provider, commands: Commands, started: StartedKernels
    ) -> None:
        able, kernel_id = _able(harness, provider), started.ready("runs").id
        assert commands.run(kernel_id, "sh", "-c", MADE).code == 0
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

    def test_a_large_folder_is_cut(
        self, harness: ProviderHarness, provider: Provider, commands: Commands, started: StartedKernels
    ) -> None:
        able, kernel_id = _able(harness, provider), started.ready("runs").id
        assert commands.run(kernel_id, "sh", "-c", MANY).code == 0
        found = able.list_files(kernel_id, "many", 3)
        assert ([each.name for each in found.entries], found.count) == (["f1", "f10", "f100"], 300)

    def test_what_is_no_folder_is_refused(
        self, harness: ProviderHarness, provider: Provider, commands: Commands, started: StartedKernels
    ) -> None:
        able, kernel_id = _able(harness, provider), started.ready("runs").id
        assert commands.run(kernel_id, "sh", "-c", "printf x >plain; ln -s loop loop").code == 0
        for path in ("nope", "plain", "loop", "/no/such", "a\0b"):
            with pytest.raises(FilesRefused):
                able.list_files(kernel_id, path, 10)
            with pytest.raises(FilesRefused):
                able.write_file(kernel_id, f"{path}/new", 1, iter([b"x"]))
        with pytest.raises(KernelNotFound):
            able.list_files(harness.spec("nobody", "").id, "/", 10)
        with pytest.raises(NotRunning):
            able.list_files(started.ended("ends").id, "/", 10)

    def test_a_file_is_written_whole_or_not_at_all(
        self, harness: ProviderHarness, provider: Provider, commands: Commands, started: StartedKernels
    ) -> None:
        able, kernel_id = _able(harness, provider), started.ready("runs").id
        assert commands.run(kernel_id, "sh", "-c", "mkdir -p up; printf old >up/there").code == 0

        def broken() -> Iterator[bytes]:
            yield b"half" * 50_000
            raise Cut

        with pytest.raises(Cut):
            able.write_file(kernel_id, "up/there", 1_000_000, broken())
        with pytest.raises((FilesRefused, ValueError)):
            able.write_file(kernel_id, "up/there", 10, iter([b"short"]))
        assert [each.name for each in able.list_files(kernel_id, "up", 10).entries] == ["there"]
        assert commands.run(kernel_id, "cat", "up/there").out == b"old"
        pieces = [bytes([number]) * 100_000 for number in range(20)]
        able.write_file(kernel_id, "up/there", 2_000_000, iter(pieces))
        able.write_file(kernel_id, "up/it's $x\n", 0, iter(()))
        assert commands.run(kernel_id, "cat", "up/there").out == b"".join(pieces)
        names = [each.name for each in able.list_files(kernel_id, "up", 10).entries]
        assert names == ["it's $x\n", "there"] and not any(name.startswith(PREFIX) for name in names)
        owners = commands.run(kernel_id, "sh", "-c", "stat -c %u up up/there").out.split()
        assert owners[0] == owners[1]

    def test_a_folder_is_not_replaced_by_a_file(
        self, harness: ProviderHarness, provider: Provider, commands: Commands, started: StartedKernels
    ) -> None:
        able, kernel_id = _able(harness, provider), started.ready("runs").id
        assert commands.run(kernel_id, "mkdir", "-p", "stays/inner").code == 0
        for name in ("inner", ".", "..", ""):
            with pytest.raises(FilesRefused):
                able.write_file(kernel_id, f"stays/{name}", 1, iter([b"x"]))
        assert [each.name for each in able.list_files(kernel_id, "stays", 9).entries] == ["inner"]


def _able(harness: ProviderHarness, provider: Provider) -> KeepsFiles:
    require_programs(harness)
    require_ability(provider, KeepsFiles)
    return cast(KeepsFiles, provider)
