"""Files that survive a crash, and locks that die with their holder.

Cheap imports only: the supervisor uses this.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct

_FLOCK = "hhqqi4x"
"""struct flock of 64-bit Linux: type, whence, start, length, pid."""


def write_atomically(path: str, text: str) -> None:
    """Temp file, fsync, rename, fsync of the directory.

    A reader sees the old or the new text, also after a power cut.
    """
    temporary = f"{path}.{os.getpid()}.{id(text)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600)
    try:
        data = text.encode()
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: str) -> dict[str, object]:
    """The JSON object in a file; empty when there is no file. Raises ValueError and OSError."""
    try:
        with open(path, encoding="utf-8") as stream:
            value = json.load(stream)
    except FileNotFoundError:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{path}: not a JSON object")
    return value


def open_lock(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int) -> bool:
    """Take the lock for as long as the descriptor is open; False when somebody else has it."""
    request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def is_locked(path: str) -> bool:
    """Whether anybody holds the lock, without taking it: watching never disturbs who wants it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, request)
    finally:
        os.close(descriptor)
    kind: int = struct.unpack(_FLOCK, answer)[0]
    return kind != fcntl.F_UNLCK
