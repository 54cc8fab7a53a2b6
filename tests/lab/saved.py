"""Guests that were booted once: their memory is kept, and they go on from there in a second.

What is kept was saved before anything was written to a disk: the root is read-only until `Guest.begin`, and
drives are plugged in there. So every guest has a layer of its own over the same image, as one that was booted
has.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import zlib
from pathlib import Path

from tests.lab.cache import LabUnavailable, alone, command, forget_unused, kept, tool
from tests.lab.guest import Guest, arguments
from tests.lab.image import kernel, load_modules, root
from tests.lab.numa import Machine

_SUPERBLOCK = slice(1024, 2048)
"""Of an ext4 file system: its UUID is in there, another one each time an image is made."""


def brought_up(machine: Machine, command_line: str) -> Guest:
    """A guest that is ready; booted where none was saved that can go on here. Raises LabUnavailable."""
    state = None
    with contextlib.suppress(LabUnavailable):
        state = kept(_name(machine, command_line), lambda draft: _save(draft, machine, command_line))
    if state is not None:
        forget_unused(state, "guest-*")
        try:
            _whole(state)
            return _ready(Guest(machine, command_line=command_line, memory=state / "memory"))
        except LabUnavailable:
            with alone(state.name):
                shutil.rmtree(state, ignore_errors=True)
    return _ready(Guest(machine, command_line=command_line))


def _ready(guest: Guest) -> Guest:
    try:
        guest.begin()
    except BaseException:
        guest.close()
        raise
    return guest


def _name(machine: Machine, command_line: str) -> str:
    """Of all that the memory of a guest depends on: what is on its disk, too, is in there."""
    image, initrd = kernel()
    with root().open("rb") as disk:
        superblock = disk.read(_SUPERBLOCK.stop)[_SUPERBLOCK]
    version = command([tool("qemu-system-x86_64"), "--version"])
    parts = (version, arguments(machine, command_line, Path("folder")), superblock)
    digest = hashlib.sha256(repr(parts).encode() + image.read_bytes() + initrd.read_bytes())
    return f"guest-{digest.hexdigest()[:16]}"


def _save(draft: Path, machine: Machine, command_line: str) -> None:
    draft.mkdir()
    with contextlib.closing(Guest(machine, command_line=command_line)) as guest:
        load_modules(guest)
        guest.save(draft / "memory")
    (draft / "checksum").write_text(_checksum(draft / "memory"))


def _checksum(path: Path) -> str:
    found = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            found = zlib.crc32(piece, found)
    return str(found)


def _whole(state: Path) -> None:
    """QEMU itself notices when a part is missing, but not when one is another."""
    try:
        same = (state / "checksum").read_text() == _checksum(state / "memory")
    except OSError as error:
        raise LabUnavailable(f"the saved guest cannot be read: {error}") from None
    if not same:
        raise LabUnavailable(f"the saved guest is damaged: {state}")
