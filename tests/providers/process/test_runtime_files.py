"""Files made for a kernel: there to read, by the path in their variable, until the kernel is removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from providers.base import File
from providers.process.provider import ProcessProvider
from schemas.problems.errors.kernel import KernelRefused
from tests.providers.process.kernels import ended, output, script, seen, spec

NOTE = File("note.xml", "<note>größe</note>\n", "NOTE_FILE")


def test_a_file_is_read_by_its_variable(provider: ProcessProvider) -> None:
    one = script('cat "$NOTE_FILE"; ls "$(dirname "$NOTE_FILE")"', files=(NOTE,))
    provider.create(one)
    assert ended(provider, one.id).exit_code == 0
    assert output(provider, one.id).decode() == NOTE.content + "note.xml\n"


def test_it_lies_outside_of_what_the_kernel_owns(provider: ProcessProvider) -> None:
    provider.create(script('find "$HOME" -name note.xml', files=(NOTE,)))
    ended(provider, spec().id)
    assert output(provider, spec().id) == b""
    folder = provider.root.folder(spec().id) / "given"
    assert (folder / "note.xml").stat().st_mode & 0o777 == 0o444
    provider.remove(spec().id)
    assert not folder.exists()


def test_in_a_sandbox_it_cannot_be_changed(make: Callable[..., ProcessProvider]) -> None:
    provider = make("sandbox")
    provider.create(script('echo $NOTE_FILE; echo more >> "$NOTE_FILE" || rm -f "$NOTE_FILE"', files=(NOTE,)))
    assert ended(provider, spec().id).exit_code != 0
    assert output(provider, spec().id).startswith(b"/run/bai/note.xml\n")
    assert (provider.root.folder(spec().id) / "given/note.xml").read_text() == NOTE.content


def test_the_record_keeps_it_and_the_digest_does_not_count_it(provider: ProcessProvider) -> None:
    provider.create(spec(files=(NOTE,)))
    record = provider.root.read(spec().id)
    assert record is not None and record.spec.files == (NOTE,)
    plain = seen(provider, spec().id).env_digest
    provider.remove(spec().id)
    assert provider.create(spec()).env_digest == plain


@pytest.mark.parametrize(
    "files",
    [
        (replace(NOTE, name="../note"),),
        (replace(NOTE, name=""),),
        (replace(NOTE, variable="A=B"),),
        (NOTE, replace(NOTE, variable="OTHER")),
    ],
)
def test_what_is_no_file_is_refused(provider: ProcessProvider, files: tuple[File, ...]) -> None:
    with pytest.raises(KernelRefused):
        provider.create(spec(files=files))
    assert provider.observe().kernels == ()
