"""One file as a tar stream, and out of one that anybody may have made."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import pytest

from providers.machines.one_file_archive import NoFile, archived_file, one_file_archive


def packed(kind: bytes = tarfile.REGTYPE, form: int = tarfile.GNU_FORMAT, name: str = "f") -> bytes:
    made, content = io.BytesIO(), b"12345" * 1000
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        member = tarfile.TarInfo(name)
        member.type, member.size = kind, len(content) if kind == tarfile.REGTYPE else 0
        archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def chopped(data: bytes, size: int = 333) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("name", ["f", "ü" * 45])
def test_a_file_comes_out_as_it_went_in(form: int, name: str) -> None:
    found = archived_file(chopped(packed(form=form, name=name)))
    assert (found.size, b"".join(found.pieces)) == (5000, b"12345" * 1000)


def test_a_name_of_any_length_may_come_before_it() -> None:
    assert archived_file(chopped(packed(name="n" * 3000))).size == 5000


def test_what_is_larger_than_a_header_tells_has_its_size() -> None:
    head = tarfile.TarInfo("big")
    head.size = 1 << 40
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        assert archived_file(iter([head.tobuf(form)])).size == 1 << 40


def test_one_made_here_is_read_by_others() -> None:
    made = b"".join(one_file_archive("n\udcff", 1000, chopped(b"x" * 1000), (7, 8)))
    with tarfile.open(fileobj=io.BytesIO(made), errors="surrogateescape") as archive:
        (member,) = archive
        assert (member.name, member.size, member.uid, member.gid) == ("n\udcff", 1000, 7, 8)
    for size in (999, 1001):
        with pytest.raises(ValueError, match=r"more than|whole"):
            list(one_file_archive("n", size, chopped(b"x" * 1000)))


@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.BLKTYPE])
def test_what_is_no_file_is_refused(kind: bytes) -> None:
    with pytest.raises(NoFile):
        archived_file(chopped(packed(kind)))


def records(text: bytes, size: int | None = None) -> bytes:
    head = tarfile.TarInfo("x")
    head.type, head.size = tarfile.XHDTYPE, len(text) if size is None else size
    return head.tobuf(tarfile.GNU_FORMAT) + text + bytes(-len(text) % 512) + packed()


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 1024, b"x" * 5000, records(b"", 1 << 40), records(b"", 1 << 17), records(b"0 size=1\n"),
     records(b"9999999 size=1\n"), records(b"x size=1\n"), records(b"11 size=-1\n"),
     records(b"22 GNU.sparse.major=1\n"), records(b"\xff" * 50)],
)  # fmt: skip
def test_nonsense_is_refused_and_not_kept(data: bytes) -> None:
    with pytest.raises(NoFile):
        archived_file(chopped(data))


def test_what_breaks_off_is_not_taken_for_whole() -> None:
    with pytest.raises(NoFile, match="whole"):
        list(archived_file(chopped(packed()[:2000])).pieces)
