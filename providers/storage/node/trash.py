"""The folder in which deleted volumes wait: `<root>/.bai-trash/<entry>/` with `data` and `record.json`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from typing import Any, Iterator

from providers.storage.node import mounts, quota
from providers.storage.node.mounts import Mounted
from providers.storage.node.walk import Refused, below, parts_of, reference

FOLDER = ".bai-trash"
_DATA, _RECORD = "data", "record.json"


def move(root: int, on: Mounted, at: str, path: str, entry: str, record: dict[str, Any]) -> str:
    """Move a folder aside under the name `entry`; `at` is the root's path. Gives the entry's name, empty when
    there was nothing to move.

    Raises Refused while somebody has it mounted.
    """
    parts = parts_of(path)
    try:
        with below(root, parts):
            pass
    except FileNotFoundError:
        return next((one["entry"] for one in entries(root) if one["volume"] == record["volume"]), "")
    _unused(on, os.path.join(at, *parts))
    with below(root, (FOLDER,), make=0o700) as bin_, below(root, parts[:-1]) as above:
        _sweep(bin_, record["volume"])
        entry = _new(bin_, entry)
        with below(bin_, (entry,)) as place:
            _write(place, record)
            os.rename(parts[-1], _DATA, src_dir_fd=above, dst_dir_fd=place)
            os.fsync(place)
    return entry


def _new(bin_: int, entry: str) -> str:
    """The folder of an entry; another volume of the same name may have gone in the same second."""
    for attempt in range(1, 1000):
        name = entry if attempt == 1 else f"{entry}-{attempt}"
        try:
            os.mkdir(name, 0o700, dir_fd=bin_)
        except FileExistsError:
            continue
        return name
    raise Refused(f"{entry} is taken in the trash")


def _unused(on: Mounted, path: str) -> None:
    inside = mounts.below_mounts(path)
    if inside:
        raise Refused(f"something is mounted in it at {sorted(inside)[0]}")
    using = mounts.users(on, path)
    if using:
        raise Refused(f"process {using[0]} has it mounted")


def _write(place: int, record: dict[str, Any]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(_RECORD, flags, 0o600, dir_fd=place), "w", encoding="utf-8") as file:
        json.dump(record, file, sort_keys=True, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())


def _sweep(bin_: int, volume: str) -> None:
    """Entries that whoever began them never filled."""
    for entry in os.listdir(bin_):
        with contextlib.suppress(OSError, Refused, ValueError), below(bin_, (entry,)) as place:
            if _DATA not in os.listdir(place) and _read(place).get("volume") == volume:
                os.unlink(_RECORD, dir_fd=place)
                os.rmdir(entry, dir_fd=bin_)


def _read(place: int) -> dict[str, Any]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(_RECORD, flags, dir_fd=place), encoding="utf-8") as file:
        value = json.load(file)
    if not isinstance(value, dict):
        raise ValueError("not a record")
    return value


def entries(root: int) -> list[dict[str, Any]]:
    """Every record that has its data, with the entry's name, oldest first."""
    found = []
    try:
        with below(root, (FOLDER,)) as bin_:
            for entry in sorted(os.listdir(bin_)):
                with contextlib.suppress(OSError, Refused, ValueError), below(bin_, (entry,)) as place:
                    if _DATA in os.listdir(place):
                        found.append({**_read(place), "entry": entry})
    except FileNotFoundError:
        return []
    return found


def restore(root: int, entry: str) -> str:
    """Put a folder back where it was; gives its path. Raises Refused when something is there."""
    with _entry(root, entry) as (bin_, place):
        path = str(_read(place)["path"])
        parts = parts_of(path)
        with below(root, parts[:-1], make=0o755) as above:
            if parts[-1] in os.listdir(above):
                _empty(above, parts[-1], path)
            os.rename(_DATA, parts[-1], src_dir_fd=place, dst_dir_fd=above)
            os.fsync(above)
        os.unlink(_RECORD, dir_fd=place)
        os.rmdir(entry, dir_fd=bin_)
    return path


def _empty(above: int, name: str, path: str) -> None:
    """What an apply made anew may go, when nothing is in it."""
    try:
        os.rmdir(name, dir_fd=above)
    except OSError as error:
        raise Refused(f"{path} is there again, and holds something") from error


def purge(root: int, on: Mounted, at: str, entry: str) -> None:
    """Delete for good what was moved aside. Raises Refused while somebody has it mounted."""
    with _entry(root, entry) as (bin_, place):
        with below(place, (_DATA,)) as data:
            path = os.path.join(at, FOLDER, entry, _DATA)
            _unused(on, path)
            quota.limit(quota.Place(on, data, place, path, entry), 0)
        shutil.rmtree(os.path.join(reference(place), _DATA))
        os.unlink(_RECORD, dir_fd=place)
        os.rmdir(entry, dir_fd=bin_)


@contextlib.contextmanager
def _entry(root: int, entry: str) -> Iterator[tuple[int, int]]:
    parts = parts_of(entry)
    if len(parts) != 1:
        raise Refused(f"{entry!r} is no entry of the trash")
    try:
        with below(root, (FOLDER,)) as bin_, below(bin_, parts) as place:
            yield bin_, place
    except FileNotFoundError as error:
        raise Refused(f"{entry} is not in the trash") from error
