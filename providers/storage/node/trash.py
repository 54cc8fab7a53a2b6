"""The folder in which deleted volumes wait: `<root>/.bai-trash/<entry>/` with `data` and `record.json`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from typing import Any, Iterator

from providers.storage.node import mounts, quota
from providers.storage.node.mounts import MountEntry
from providers.storage.node.walk import FolderRefused, open_below, parts_of, reference

TRASH_FOLDER = ".bai-trash"
_DATA, _RECORD = "data", "record.json"


def move(root: int, on: MountEntry, at: str, path: str, entry: str, record: dict[str, Any]) -> str:
    """Move a folder aside under the name `entry`; `at` is the root's path. Gives the entry's name, empty when
    there was nothing to move.

    Raises FolderRefused while somebody has it mounted.
    """
    parts = parts_of(path)
    try:
        with open_below(root, parts):
            pass
    except FileNotFoundError:
        return next((one["entry"] for one in entries(root) if one["volume"] == record["volume"]), "")
    _require_unmounted(on, os.path.join(at, *parts))
    with open_below(root, (TRASH_FOLDER,), make=0o700) as bin_, open_below(root, parts[:-1]) as above:
        _sweep_unfilled(bin_, record["volume"])
        entry = _new_entry_folder(bin_, entry)
        with open_below(bin_, (entry,)) as place:
            _write_record(place, record)
            os.rename(parts[-1], _DATA, src_dir_fd=above, dst_dir_fd=place)
            os.fsync(place)
    return entry


def _new_entry_folder(bin_: int, entry: str) -> str:
    """The folder of an entry; another volume of the same name may have gone in the same second."""
    for attempt in range(1, 1000):
        name = entry if attempt == 1 else f"{entry}-{attempt}"
        try:
            os.mkdir(name, 0o700, dir_fd=bin_)
        except FileExistsError:
            continue
        return name
    raise FolderRefused(f"{entry} is taken in the trash")


def _require_unmounted(on: MountEntry, path: str) -> None:
    inside = mounts.below_mounts(path)
    if inside:
        raise FolderRefused(f"something is mounted in it at {sorted(inside)[0]}")
    using = mounts.processes_using(on, path)
    if using:
        raise FolderRefused(f"process {using[0]} has it mounted")


def _write_record(place: int, record: dict[str, Any]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(_RECORD, flags, 0o600, dir_fd=place), "w", encoding="utf-8") as file:
        json.dump(record, file, sort_keys=True, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())


def _sweep_unfilled(bin_: int, volume: str) -> None:
    """Entries that whoever began them never filled."""
    for entry in os.listdir(bin_):
        with contextlib.suppress(OSError, FolderRefused, ValueError), open_below(bin_, (entry,)) as place:
            if _DATA not in os.listdir(place) and _read_record(place).get("volume") == volume:
                os.unlink(_RECORD, dir_fd=place)
                os.rmdir(entry, dir_fd=bin_)


def _read_record(place: int) -> dict[str, Any]:
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
        with open_below(root, (TRASH_FOLDER,)) as bin_:
            for entry in sorted(os.listdir(bin_)):
                with contextlib.suppress(OSError, FolderRefused, ValueError), open_below(
                    bin_, (entry,)
                ) as place:
                    if _DATA in os.listdir(place):
                        found.append({**_read_record(place), "entry": entry})
    except FileNotFoundError:
        return []
    return found


def restore(root: int, entry: str) -> str:
    """Put a folder back where it was; gives its path. Raises FolderRefused when something is there."""
    with _open_entry(root, entry) as (bin_, place):
        path = str(_read_record(place)["path"])
        parts = parts_of(path)
        with open_below(root, parts[:-1], make=0o755) as above:
            if parts[-1] in os.listdir(above):
                _remove_empty(above, parts[-1], path)
            os.rename(_DATA, parts[-1], src_dir_fd=place, dst_dir_fd=above)
            os.fsync(above)
        os.unlink(_RECORD, dir_fd=place)
        os.rmdir(entry, dir_fd=bin_)
    return path


def _remove_empty(above: int, name: str, path: str) -> None:
    """What an apply made anew may go, when nothing is in it."""
    try:
        os.rmdir(name, dir_fd=above)
    except OSError as error:
        raise FolderRefused(f"{path} is there again, and holds something") from error


def purge(root: int, on: MountEntry, at: str, entry: str) -> None:
    """Delete for good what was moved aside. Raises FolderRefused while somebody has it mounted."""
    with _open_entry(root, entry) as (bin_, place):
        with open_below(place, (_DATA,)) as data:
            path = os.path.join(at, TRASH_FOLDER, entry, _DATA)
            _require_unmounted(on, path)
            quota.set_limit(quota.QuotaFolder(on, data, place, path, entry), 0)
        shutil.rmtree(os.path.join(reference(place), _DATA))
        os.unlink(_RECORD, dir_fd=place)
        os.rmdir(entry, dir_fd=bin_)


@contextlib.contextmanager
def _open_entry(root: int, entry: str) -> Iterator[tuple[int, int]]:
    parts = parts_of(entry)
    if len(parts) != 1:
        raise FolderRefused(f"{entry!r} is no entry of the trash")
    try:
        with open_below(root, (TRASH_FOLDER,)) as bin_, open_below(bin_, parts) as place:
            yield bin_, place
    except FileNotFoundError as error:
        raise FolderRefused(f"{entry} is not in the trash") from error
