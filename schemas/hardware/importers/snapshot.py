"""A tarball of /sys and /proc (`hwloc-gather-topology`, or plain tar): read in memory, never unpacked."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import posixpath
import tarfile
import zlib
from collections.abc import Callable
from typing import IO, Any

from schemas.hardware.importers.facts import Facts, UnreadableCapture, hardware_facts
from schemas.hardware.model import Hardware
from schemas.hardware.sysfs.machine import NoMachineTree, describe_machine
from schemas.hardware.sysfs.tree import MemoryTree

_MAGIC: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_MOST_ENTRIES, _LARGEST_FILE, _LARGEST_TAR = 200_000, 1 << 20, 256 << 20


def is_tarball(head: bytes) -> bool:
    return head.startswith(tuple(_MAGIC)) or head[257:262] == b"ustar"


def read_snapshot(data: bytes) -> Facts:
    """Raises UnreadableCapture."""
    try:
        tree = _read_tree(data)
        found = Hardware.model_validate(describe_machine(tree))
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise UnreadableCapture(f"not a readable tarball: {error}") from None
    except NoMachineTree as error:
        raise UnreadableCapture(f"not a snapshot of /sys and /proc: {error}") from None
    facts = hardware_facts(found, "snapshot of /sys")
    if "architecture" in found.unknown:
        facts.architecture = None
    if not tree.names("/sys/bus/pci/devices"):
        facts.gpus = facts.nics = facts.disks = facts.nv_switches = None
    return facts


def _read_tree(data: bytes) -> MemoryTree:
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    entries = 0
    with tarfile.open(fileobj=io.BytesIO(_decompress(data)), mode="r:") as archive:
        for entry in archive:
            entries += 1
            path = posixpath.normpath("/" + entry.name)
            if entry.issym():
                links[path] = entry.linkname
            elif entry.isfile() and not entry.issparse() and entry.size <= _LARGEST_FILE:
                content = archive.extractfile(entry)
                files[path] = content.read().decode("utf-8", "replace") if content else ""
            if entries > _MOST_ENTRIES:
                raise UnreadableCapture("a tarball larger than any snapshot of /sys")
    prefix = _path_prefix([*files, *links])
    keep = len(prefix)
    return MemoryTree(
        {path[keep:]: text for path, text in files.items() if path.startswith(prefix)},
        {path[keep:]: target for path, target in links.items() if path.startswith(prefix)},
    )


def _decompress(data: bytes) -> bytes:
    """The tar itself, at once (reading a compressed one in pieces is slow) and of bounded size."""
    for magic, opened in _MAGIC.items():
        if data.startswith(magic):
            with opened(io.BytesIO(data)) as file:
                data = file.read(_LARGEST_TAR + 1)
            break
    if len(data) > _LARGEST_TAR:
        raise UnreadableCapture("a tarball larger than any snapshot of /sys")
    return data


def _path_prefix(paths: list[str]) -> str:
    """What stands before /sys in the archive."""
    for marker in ("/sys/devices/system/", "/proc/cpuinfo"):
        for path in paths:
            if marker in path:
                return path[: path.index(marker)]
    return ""
