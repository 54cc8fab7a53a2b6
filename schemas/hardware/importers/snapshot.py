"""A tarball of /sys and /proc (`hwloc-gather-topology`, or plain tar): read in memory, never unpacked."""

from __future__ import annotations

import io
import lzma
import posixpath
import tarfile
import zlib

from schemas.hardware.importers.facts import Facts, NotReadable, of_hardware
from schemas.hardware.model import Hardware
from schemas.hardware.sysfs.machine import NotAMachine, machine
from schemas.hardware.sysfs.tree import MemoryTree

_MAGIC = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")
_MOST_ENTRIES, _LARGEST_FILE, _LARGEST_TOTAL = 200_000, 1 << 20, 128 << 20


def is_tarball(head: bytes) -> bool:
    return head.startswith(_MAGIC) or head[257:262] == b"ustar"


def snapshot(data: bytes) -> Facts:
    """Raises NotReadable."""
    try:
        tree = _tree(data)
        found = Hardware.model_validate(machine(tree))
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise NotReadable(f"not a readable tarball: {error}") from None
    except NotAMachine as error:
        raise NotReadable(f"not a snapshot of /sys and /proc: {error}") from None
    facts = of_hardware(found, "snapshot of /sys")
    if "architecture" in found.unknown:
        facts.architecture = None
    if not tree.names("/sys/bus/pci/devices"):
        facts.gpus = facts.nics = facts.disks = facts.nv_switches = None
    return facts


def _tree(data: bytes) -> MemoryTree:
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    total = entries = 0
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|*") as archive:
        for entry in archive:
            entries += 1
            path = posixpath.normpath("/" + entry.name)
            if entry.issym():
                links[path] = entry.linkname
            elif entry.isfile() and entry.size <= _LARGEST_FILE:
                total += entry.size
                content = archive.extractfile(entry)
                files[path] = content.read().decode("utf-8", "replace") if content else ""
            if entries > _MOST_ENTRIES or total > _LARGEST_TOTAL:
                raise NotReadable("a tarball larger than any snapshot of /sys")
    prefix = _prefix([*files, *links])
    keep = len(prefix)
    return MemoryTree(
        {path[keep:]: text for path, text in files.items() if path.startswith(prefix)},
        {path[keep:]: target for path, target in links.items() if path.startswith(prefix)},
    )


def _prefix(paths: list[str]) -> str:
    """What stands before /sys in the archive."""
    for marker in ("/sys/devices/system/", "/proc/cpuinfo"):
        for path in paths:
            if marker in path:
                return path[: path.index(marker)]
    return ""
