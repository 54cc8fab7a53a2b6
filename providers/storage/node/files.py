"""Files of a volume: listed, read, packed and written beneath its folder, without following any link. One
request is one stream: a line of JSON says how it went, and bytes follow where there are some.
"""

from __future__ import annotations

import json
import os
import stat
import tarfile
from typing import IO, Any

from providers.machines import folder_view
from providers.storage.node import main, mounts, ownership, quota, usage
from providers.storage.node.walk import FolderRefused, open_below, parts_of, reference

CHUNK = 1 << 18
DEEPEST = 200
"""Levels of folders that are packed; each takes an open file."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def stream(request: dict[str, Any], source: IO[bytes], sink: IO[bytes]) -> None:
    """`request`: `folder` as `main` has it, `path` below it in hex, and what to `do`. Raises what it
    does once bytes have gone out: they are not whole then."""
    try:
        begin = _VERBS[request["do"]]
        steps = parts_of(os.fsdecode(bytes.fromhex(request["path"])))
        with main.opened_root(request["folder"]) as (root, on):
            parts = parts_of(request["folder"]["path"])
            ownership.check_owner(root, parts, request["folder"])
            with open_below(root, parts) as volume:
                begin(_Volume(root, on, parts, volume), steps, request, source, sink)
    except FolderRefused as error:
        _answer(sink, refused=str(error))
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        _answer(sink, refused=f"{error.strerror or error}{where}")


class _Volume:
    """A volume's open folder, and where it is."""

    def __init__(self, root: int, on: mounts.MountEntry, parts: tuple[str, ...], folder: int) -> None:
        self.root, self.on, self.parts, self.folder = root, on, parts, folder


def _answer(sink: IO[bytes], **fields: Any) -> None:
    sink.write(json.dumps(fields).encode() + b"\n")


def _list(
    volume: _Volume, steps: tuple[str, ...], request: dict[str, Any], source: IO[bytes], sink: IO[bytes]
) -> None:
    with open_below(volume.folder, steps) as folder:
        _answer(sink, **folder_view.list_folder(folder, request["most"]))


def _read(
    volume: _Volume, steps: tuple[str, ...], request: dict[str, Any], source: IO[bytes], sink: IO[bytes]
) -> None:
    if not steps:
        raise FolderRefused("it is a folder")
    with open_below(volume.folder, steps[:-1]) as folder:
        file = _open_file(folder, steps[-1])
    try:
        left = os.fstat(file).st_size
        _answer(sink, size=left)
        while left:
            data = os.read(file, min(left, CHUNK))
            if not data:
                raise _CutShort("it has become shorter")
            left -= len(data)
            sink.write(data)
    except OSError as error:
        raise _CutShort(str(error)) from error
    finally:
        os.close(file)


class _CutShort(Exception):
    """What was promised does not come."""


def _open_file(folder: int, name: str) -> int:
    """Looked at before it is opened, which does something to devices. Raises FolderRefused, OSError."""
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(held).st_mode):
            raise FolderRefused("it is no file")
        return os.open(reference(held), _READ)
    finally:
        os.close(held)


def _pack(
    volume: _Volume, steps: tuple[str, ...], request: dict[str, Any], source: IO[bytes], sink: IO[bytes]
) -> None:
    with open_below(volume.folder, steps) as folder:
        _answer(sink)
        try:
            with tarfile.open(
                fileobj=sink, mode="w|", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
            ) as archive:
                _pack_folder(archive, folder, (steps or volume.parts)[-1], os.fstat(folder).st_dev, 0)
        except OSError as error:
            raise _CutShort(str(error)) from error


def _pack_folder(archive: tarfile.TarFile, folder: int, name: str, device: int, depth: int) -> None:
    """Folders, files and links, of one file system."""
    archive.addfile(_member(name, tarfile.DIRTYPE, os.fstat(folder)))
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                _pack_entry(archive, folder, entry.name, f"{name}/{entry.name}", (device, depth))
            except (FileNotFoundError, PermissionError, FolderRefused):
                continue  # Gone, or another thing, meanwhile.


def _pack_entry(archive: tarfile.TarFile, folder: int, name: str, shown: str, where: tuple[int, int]) -> None:
    device, depth = where
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if found.st_dev != device:
        return
    if stat.S_ISLNK(found.st_mode):
        member = _member(shown, tarfile.SYMTYPE, found)
        member.linkname = os.readlink(name, dir_fd=folder)
        archive.addfile(member)
    elif stat.S_ISDIR(found.st_mode):
        if depth >= DEEPEST:
            raise _CutShort("its folders lie too deep")
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            _pack_folder(archive, inner, shown, device, depth + 1)
        finally:
            os.close(inner)
    elif stat.S_ISREG(found.st_mode):
        with os.fdopen(_open_file(folder, name), "rb") as opened:
            archive.addfile(_member(shown, tarfile.REGTYPE, os.fstat(opened.fileno())), opened)


def _member(name: str, kind: bytes, found: os.stat_result) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.mtime = kind, stat.S_IMODE(found.st_mode), int(found.st_mtime)
    member.size = found.st_size if kind == tarfile.REGTYPE else 0
    return member


def _write(
    volume: _Volume, steps: tuple[str, ...], request: dict[str, Any], source: IO[bytes], sink: IO[bytes]
) -> None:
    if not steps:
        raise FolderRefused("that is no name of a file")
    _require_room(volume, request["folder"], request["size"])
    with open_below(volume.folder, steps[:-1]) as folder:
        above = os.fstat(folder)
        owner = (above.st_uid, above.st_gid) if os.geteuid() == 0 else None
        folder_view.receive_file(folder, os.fsencode(steps[-1]), request["size"], source.read, owner)
    _answer(sink)


def _require_room(volume: _Volume, folder: dict[str, Any], size: int) -> None:
    """Root may write past a limit; and not every file system holds one."""
    path = os.path.join(folder["root"], *volume.parts)
    with open_below(volume.root, volume.parts[:-1]) as above:
        has = quota.read_limit(quota.QuotaFolder(volume.on, volume.folder, above, path, folder["volume"]))
    most = has.most or folder.get("quota") or 0
    if not most:
        return
    used = has.used
    if used is None:
        used = usage.count_usage(volume.folder, enough=most)[0]
    if used + size > most:
        raise FolderRefused(f"its quota has room for {max(0, most - used)} bytes more, and this has {size}")


_VERBS = {"list": _list, "read": _read, "pack": _pack, "write": _write}
