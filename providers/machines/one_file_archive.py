"""A tar stream of one file, and the one file of a tar stream, in constant memory."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from providers.machines.streams import CHUNK, chunks_as_file

_BLOCK = tarfile.BLOCKSIZE
_MOST_ABOUT = 1 << 16
"""Bytes of records before a file that say more about it: whoever sends them may be anybody."""
_ABOUT = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)


class NoFile(Exception):
    """What came is no archive of one file; the text says it to a person."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """`pieces` raises NoFile where the stream ends before the file does."""

    size: int
    pieces: Iterator[bytes]


def one_file_archive(
    name: str, size: int, data: Iterator[bytes], owner: tuple[int, int] = (0, 0)
) -> Iterator[bytes]:
    """`data` has exactly `size` bytes. Raises what it raises, and ValueError where it has others."""
    member = tarfile.TarInfo(name)
    member.size, member.mode, (member.uid, member.gid) = size, 0o644, owner
    yield member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    left = size
    for piece in data:
        left -= len(piece)
        if left < 0:
            raise ValueError("there is more than was said")
        yield piece
    if left:
        raise ValueError("it did not come whole")
    yield bytes(-size % _BLOCK + 2 * _BLOCK)


def archived_file(archive: Iterator[bytes]) -> ArchivedFile:
    """The first member of a tar stream, which must be a file. Raises NoFile, and what `archive` raises."""
    stream = chunks_as_file(archive)
    size: int | None = None
    while True:
        head = stream.read(_BLOCK)
        try:
            member = tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise NoFile("what was sent is no archive") from error
        if member.type not in _ABOUT:
            break
        if not 0 <= member.size <= _MOST_ABOUT:
            raise NoFile("what was sent says too much about a file")
        about = stream.read(member.size + -member.size % _BLOCK)
        if member.type == tarfile.XHDTYPE:
            size = _size_of(about[: member.size])
    if member.type not in _FILES:
        kinds = {tarfile.DIRTYPE: "a folder", tarfile.SYMTYPE: "a link"}
        raise NoFile(f"it is {kinds.get(member.type, 'no file')}")
    whole = member.size if size is None else size
    if whole < 0:
        raise NoFile("what was sent is no archive")

    def pieces() -> Iterator[bytes]:
        left = whole
        while left:
            data = stream.read1(min(left, CHUNK))
            if not data:
                raise NoFile("it did not come whole")
            left -= len(data)
            yield data

    return ArchivedFile(whole, pieces())


def _size_of(records: bytes) -> int | None:
    """Of the records of a file that is too large for a header (`27 size=12345678901234\\n`)."""
    found: int | None = None
    while records:
        length, _, rest = records.partition(b" ")
        if not length.isdigit() or len(length) > 6 or int(length) <= len(length) + 1:
            raise NoFile("what was sent is no archive")
        record = rest[: int(length) - len(length) - 1]
        key, _, value = record.rstrip(b"\n").partition(b"=")
        if key == b"size":
            if not value.isdigit() or len(value) > 18:
                raise NoFile("what was sent is no archive")
            found = int(value)
        if key.startswith(b"GNU.sparse"):
            raise NoFile("it has holes, which cannot be sent so")
        records = records[int(length) :]
    return found
