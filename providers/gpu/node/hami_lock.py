"""The folder of HAMi-core's lock, for who sees the machine's own: the library knows no other place for it.

Checks of one machine have it together, whoever they are and whatever their roots. Each user has a file there,
locked by each of the user's checks; what is in it says that the folder was made for them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from typing import Iterator

from providers.gpu.node import hami

_MADE = b"made for checks\n"
_PREFIX = "bai-"


@contextlib.contextmanager
def shared_lock() -> Iterator[None]:
    """It is there, and nobody here removes it meanwhile. Raises OSError."""
    with contextlib.ExitStack() as stack:
        _enter(stack)
        yield


def _enter(stack: contextlib.ExitStack) -> None:
    """Where the folder is somebody else's who gives us no place in it, it is used as it is."""
    while True:
        if not os.path.lexists(hami.LOCK):
            _make()
        try:
            folder = os.open(hami.LOCK, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            # For nobody else's eyes: whoever can open it can lock it.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            held = os.open(_own(), flags, 0o600, dir_fd=folder)
        except FileNotFoundError:
            continue  # It went just now.
        except OSError:
            return
        stack.callback(os.close, held)
        if os.fstat(held).st_uid != os.geteuid():
            return
        fcntl.flock(held, fcntl.LOCK_SH)
        if _is_there(folder, held):
            stack.callback(_leave, folder, held)
            return


def _own() -> str:
    return f"{_PREFIX}{os.geteuid()}"


def _make() -> None:
    """Complete or not at all: others look as soon as it is there."""
    where, name = os.path.split(hami.LOCK)
    folder = tempfile.mkdtemp(prefix=f"{name}.", dir=where)
    try:
        with open(os.open(f"{folder}/{_own()}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as own:
            own.write(_MADE)
        os.chmod(folder, 0o1777)
        os.rename(folder, hami.LOCK)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(hami.LOCK):
            raise


def _is_there(folder: int, held: int) -> bool:
    try:
        return os.path.samestat(os.stat(_own(), dir_fd=folder, follow_symlinks=False), os.fstat(held))
    except FileNotFoundError:
        return False


def _leave(folder: int, held: int) -> None:
    """The last one removes what was made for checks, unless another user's are there."""
    with contextlib.suppress(OSError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        made = os.pread(held, len(_MADE), 0) == _MADE
        here = [name for name in os.listdir(folder) if name.startswith(_PREFIX)]
        if not made:
            os.unlink(_own(), dir_fd=folder)
        elif here == [_own()]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink("lock", dir_fd=folder)  # A client that was killed left it.
            os.unlink(_own(), dir_fd=folder)
            os.rmdir(hami.LOCK)
