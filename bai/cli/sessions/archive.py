"""Tar streams of local files: made as they are read, unpacked as they come, never beside the target."""

from __future__ import annotations

import posixpath
import stat
import sys
import tarfile
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bai.render.humanize import clean
from providers.machines import streams
from schemas.problems.errors.command import CommandError


@dataclass
class TransferCount:
    """What went through. `left_out`: members that were refused, and why."""

    files: int = 0
    size: int = 0
    left_out: list[str] = field(default_factory=list)

    def count(self, member: tarfile.TarInfo) -> None:
        if not member.isdir():
            self.files += 1
            self.size += member.size


def pack(source: Path, name: str, tally: TransferCount) -> Iterator[bytes]:
    """A tar stream of a file or folder, called `name` in it (`.` for what is in it); counted in `tally`.

    Raises OSError for what cannot be read.
    """

    def write(stream: IO[bytes]) -> None:
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            archive.add(source, arcname=name, filter=lambda one: _without_owner(one, tally))

    return streams.pipe_writer(write)


def _without_owner(member: tarfile.TarInfo, tally: TransferCount) -> tarfile.TarInfo:
    """Users here mean nothing there."""
    tally.count(member)
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpack(chunks: Iterator[bytes], target: Path) -> TransferCount:
    """Unpack into `target` when it is a folder, otherwise as `target`.

    Whoever made the archive is not trusted: nothing is written outside the target, links that lead out of it
    and device nodes are left out. Raises CommandError and OSError.
    """
    _require_filters()
    count = TransferCount()
    source = streams.chunks_as_file(chunks)
    try:
        with tarfile.open(fileobj=source, mode="r|", errorlevel=1) as archive:
            _Unpacker(archive, target, count).run()
    except tarfile.TarError as error:
        raise CommandError(why=f"what was sent is not a complete archive: {clean(str(error))}") from error
    while source.read(streams.CHUNK):  # the end, where a failure of the sender shows
        pass
    return count


def _require_filters() -> None:
    if not hasattr(tarfile, "data_filter"):
        version = ".".join(map(str, sys.version_info[:3]))
        raise CommandError(
            why=f"Python {version} cannot unpack archives safely",
            hint="use Python 3.11.4 or newer, or write the archive to a file: bai cp SESSION:PATH - > x.tar",
        )


class _Unpacker:
    """One archive on its way into one target."""

    def __init__(self, archive: tarfile.TarFile, target: Path, count: TransferCount) -> None:
        self._archive = archive
        self._into = target
        self._count = count
        self._modes: list[tuple[Path, int]] = []
        self._links: set[str] = set()
        """Names of the links that it has made."""
        self._strip = not target.is_dir()
        """The first part of every name is replaced by the target's own."""

    def run(self) -> None:
        first = self._archive.next()
        if first is None:
            return
        if self._strip and not first.isdir():
            self._unpack_single(first)
            return
        if self._strip:
            self._into.mkdir()
        member: tarfile.TarInfo | None = first
        while member is not None:
            self._unpack_member(member)
            member = self._archive.next()
        for path, mode in reversed(self._modes):
            if path.is_dir() and not path.is_symlink():
                path.chmod(mode)

    def _unpack_single(self, member: tarfile.TarInfo) -> None:
        """One file, under the target's name in the target's folder."""
        self._extract(member.replace(name=self._into.name, deep=False), self._into.parent)

    def _unpack_member(self, member: tarfile.TarInfo) -> None:
        if ".." in member.name.split("/") or member.name.startswith("/"):
            self._count.left_out.append(f"{clean(member.name)}: its name leads out of the target")
            return
        if self._strip:
            member = _stripped(member)
        self._extract(member, self._into)

    def _goes_through_link(self, name: str) -> bool:
        """Whether a link of this archive is at this name, or on the way there. No program that packs a folder
        makes such a member, and where links lead to is nothing that Python's filters can be asked: with names
        longer than the system takes they lead wherever an attacker likes (CVE-2025-4517)."""
        steps = _normalized(name).split("/")
        return any("/".join(steps[:count]) in self._links for count in range(1, len(steps) + 1))

    def _extract(self, member: tarfile.TarInfo, folder: Path) -> None:
        if self._goes_through_link(member.name) or (
            member.islnk() and self._goes_through_link(member.linkname)
        ):
            self._count.left_out.append(f"{clean(member.name)}: a link of the archive is in its way")
            return
        if member.issym():
            self._links.add(_normalized(member.name))
        if member.islnk() and not (folder / member.linkname).is_file():
            self._count.left_out.append(f"{clean(member.name)}: it links to what is not in the archive")
            return
        mode = member.mode & 0o777
        writable = mode | stat.S_IRWXU if member.isdir() else mode
        try:
            self._archive.extract(
                member, folder, filter=lambda one, path: _checked_member(one, path, writable)
            )
        except tarfile.FilterError as error:
            self._count.left_out.append(f"{clean(member.name)}: {clean(_refusal_text(error))}")
            return
        if member.isdir():
            self._modes.append((folder / member.name, mode))
        else:
            self._count.count(member)


def _normalized(name: str) -> str:
    """The same for all names that some file system takes for the same."""
    return unicodedata.normalize("NFC", posixpath.normpath(name)).casefold()


def _checked_member(member: tarfile.TarInfo, path: str, mode: int) -> tarfile.TarInfo | None:
    """Checked as data, with the permissions it had (never set-user-id and the like)."""
    checked = tarfile.data_filter(member, path)
    if checked.issym():
        return checked
    return checked.replace(mode=mode, deep=False)


def _stripped(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Named from the second part on; links to other members likewise."""
    name = member.name.partition("/")[2] or "."
    link = member.linkname.partition("/")[2] if member.islnk() else member.linkname
    return member.replace(name=name, linkname=link, deep=False)


def _refusal_text(error: Exception) -> str:
    return str(error).rpartition(" would be ")[2] if " would be " in str(error) else str(error)
