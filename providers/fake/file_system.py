"""Files that are only remembered: folders, files, links, and what is none of these."""

from __future__ import annotations

import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from providers.machines.files.folder_listing import FileEntry, FileKind, FolderListing

HOME = "/work"
"""Where paths begin that do not begin with `/`."""
ROOM = 16 << 20
"""Bytes that there is room for."""
_MOST_LINKS = 40
_MODES = {"file": 0o644, "folder": 0o755, "link": 0o777, "other": 0o644}


class NoSuchPlace(Exception):
    """There is nothing of that kind, or no room; the text says it to a person."""


@dataclass(slots=True)
class _Thing:
    kind: FileKind
    modified: float
    mode: int
    data: bytes = b""
    """Of a file."""
    target: str = ""
    """Of a link."""
    inside: dict[str, _Thing] = field(default_factory=dict)
    """Of a folder."""


class FakeFileSystem:
    """`files`: what there is in the working directory, by path. For who holds the lock of its world."""

    def __init__(self, files: Mapping[str, bytes], now: Callable[[], float]) -> None:
        self._now = now
        self._root = self._thing("folder")
        for folder in (HOME, "/tmp"):
            self._make_folder(self._root, folder)
        for path, data in files.items():
            self._put(f"{HOME}/{path}", self._thing("file", data=data))

    def list_folder(self, path: str, most: int) -> FolderListing:
        """Raises NoSuchPlace."""
        inside = self._folder(path).inside
        found = sorted(inside, key=lambda name: name.encode("utf-8", "surrogateescape"))
        entries = tuple(_entry(name, inside[name]) for name in found[:most])
        return FolderListing(entries, len(found))

    def write_file(self, path: str, data: bytes) -> None:
        """In place of one that may be there. Raises NoSuchPlace."""
        before, _, name = path.rpartition("/")
        folder = self._folder(before or ("/" if path.startswith("/") else "."))
        there = folder.inside.get(name)
        if name in ("", ".", "..") or "\0" in name or (there is not None and there.kind == "folder"):
            raise NoSuchPlace("it is a folder")
        if _size(self._root) - (len(there.data) if there else 0) + len(data) > ROOM:
            raise NoSuchPlace(f"there is room for {ROOM >> 20} MiB here, in memory")
        folder.inside[name] = self._thing("file", data=data)

    def pack(self, path: str) -> Iterator[bytes]:
        """A file or folder as a tar stream. Raises NoSuchPlace."""
        found = self._find(path)
        return _packed(path.rstrip("/").rpartition("/")[2] or ".", found)

    def unpack(self, path: str, archive: IO[bytes]) -> None:
        """What a tar stream holds, into a folder. Raises NoSuchPlace, TarError."""
        folder = self._folder(path)
        with tarfile.open(fileobj=archive, mode="r|", errors="surrogateescape") as members:
            for member in members:
                names = [name for name in member.name.split("/") if name not in ("", ".")]
                if ".." in names:
                    raise NoSuchPlace("it leads out of the folder")
                if member.isdir():
                    self._make_folder(folder, member.name).modified = float(member.mtime)
                elif names:
                    self._put(member.name, self._of_member(members, member), folder)

    def _of_member(self, members: tarfile.TarFile, member: tarfile.TarInfo) -> _Thing:
        if member.issym():
            return self._thing("link", target=member.linkname)
        data = members.extractfile(member) if member.isreg() else None
        if data is None:
            return self._thing("other")
        if _size(self._root) + member.size > ROOM:
            raise NoSuchPlace(f"there is room for {ROOM >> 20} MiB here, in memory")
        made = self._thing("file", data=data.read())
        made.mode, made.modified = stat.S_IMODE(member.mode), float(member.mtime) or made.modified
        return made

    def _thing(self, kind: FileKind, *, data: bytes = b"", target: str = "") -> _Thing:
        return _Thing(kind, self._now(), _MODES[kind], data, target)

    def _put(self, path: str, made: _Thing, begin: _Thing | None = None) -> None:
        before, _, name = path.rpartition("/")
        self._make_folder(begin or self._root, before).inside[name] = made

    def _make_folder(self, begin: _Thing, path: str) -> _Thing:
        """With those above it; what is none gives way."""
        for name in filter(lambda name: name not in ("", "."), path.split("/")):
            there = begin.inside.get(name)
            if there is None or there.kind != "folder":
                there = begin.inside[name] = self._thing("folder")
            begin = there
        return begin

    def _folder(self, path: str) -> _Thing:
        found = self._find(path)
        if found.kind != "folder":
            raise NoSuchPlace("it is no folder")
        return found

    def _find(self, path: str) -> _Thing:
        """Links are followed. Raises NoSuchPlace."""
        trail, left, links = [self._root], _names(path), 0
        while left:
            name, left = left[0], left[1:]
            if name == "..":
                trail = trail[: max(1, len(trail) - 1)]
                continue
            found = trail[-1].inside.get(name) if trail[-1].kind == "folder" else None
            if found is None:
                raise NoSuchPlace("it is not there")
            if found.kind != "link":
                trail.append(found)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise NoSuchPlace("there are too many links")
            if found.target.startswith("/"):
                trail = [self._root]
            left = [*_parts(found.target), *left]
        return trail[-1]


def _names(path: str) -> list[str]:
    return _parts(path if path.startswith("/") else f"{HOME}/{path}")


def _parts(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _entry(name: str, thing: _Thing) -> FileEntry:
    return FileEntry(name, thing.kind, len(thing.data) if thing.kind == "file" else None, thing.modified)


def _size(thing: _Thing) -> int:
    return len(thing.data) + sum(map(_size, thing.inside.values()))


def _packed(name: str, thing: _Thing) -> Iterator[bytes]:
    yield from _members(name, thing)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _members(name: str, thing: _Thing) -> Iterator[bytes]:
    member = tarfile.TarInfo(name)
    member.mtime, member.mode = int(thing.modified), thing.mode
    kinds = {"folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE, "other": tarfile.FIFOTYPE}
    member.type, member.linkname = kinds.get(thing.kind, tarfile.REGTYPE), thing.target
    member.size = len(thing.data)
    yield member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    yield thing.data + bytes(-len(thing.data) % tarfile.BLOCKSIZE)
    for inner in sorted(thing.inside):
        yield from _members(f"{name}/{inner}", thing.inside[inner])
