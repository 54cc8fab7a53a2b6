"""The kernel's log since boot: what NVIDIA's driver reports, memory errors, file systems that failed."""

from __future__ import annotations

import errno
import os
import re
import time
from typing import Any, Iterator

from providers.health.node.files import Tree

MARK = "bai: GPU errors before this line are settled"
"""Written into the log by `bai nodes check --settle`."""
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^)]*\): ([0-9]{1,9}),? ?(.*)"
)
_LOADED = re.compile(r"NVRM: loading NVIDIA UNIX")
_READ_ONLY = re.compile(
    r"(EXT4-fs|XFS|BTRFS).*(Remounting filesystem read-only|Shutting down filesystem|forced readonly)"
)
_CHECK = re.compile(r"(?:mce: )?\[Hardware Error\]: .*(?:Uncorrected|uncorrected|UE )")
_LINE = re.compile(r"^([0-9]{1,19}),([0-9]{1,19}),([0-9]{1,19}),[^;]*;(.*)$")
_MOST = 2000


def read_log(tree: Tree) -> dict[str, Any]:
    """`problem` when it cannot be read; `xids` by GPU and number, none from before the driver was loaded or
    the errors were settled; `machine_checks` and `read_only` file systems."""
    try:
        lines = list(_lines(tree))
    except OSError as error:
        return {"problem": os.strerror(error.errno or 0) or str(error)}
    now = _uptime(tree)
    xids: dict[tuple[str, int], dict[str, Any]] = {}
    checks, read_only = 0, []
    for at, text in lines:
        found = _XID.search(text)
        if found:
            _count_xid(xids, found, now - at)
        elif _LOADED.search(text) or MARK in text:
            xids.clear()
        elif _CHECK.search(text):
            checks += 1
        elif _READ_ONLY.search(text):
            read_only.append(text[:200])
    return {"problem": "", "xids": list(xids.values()), "machine_checks": checks, "read_only": read_only[-8:]}


def _count_xid(xids: dict[tuple[str, int], dict[str, Any]], found: re.Match[str], ago: float) -> None:
    key = (found.group(1).lower(), int(found.group(2)))
    known = xids.pop(key, {"count": 0})
    if len(xids) < _MOST:
        words = found.group(3)[:200]
        xids[key] = {"pci": key[0], "xid": key[1], "count": known["count"] + 1, "ago": ago, "words": words}


def _uptime(tree: Tree) -> float:
    words = tree.read("/proc/uptime", 64).split()
    return float(words[0]) if words else 0.0


def _lines(tree: Tree) -> Iterator[tuple[float, str]]:
    """(seconds since boot, message) of every record that is still kept, oldest first. Raises OSError."""
    if not tree.own:  # a copy of a machine's files holds the records one after the other
        records = tree.read("/dev/kmsg").splitlines()
        if not tree.there("/dev/kmsg"):
            raise FileNotFoundError(errno.ENOENT, "/dev/kmsg")
        yield from (one for record in records for one in _parse_record(record))
        return
    file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    deadline = time.monotonic() + 10
    try:
        while time.monotonic() < deadline:
            try:
                record = os.read(file, 8192)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten while it was read: what follows is still there
                    continue
                raise
            if not record:
                return
            yield from _parse_record(record.decode("utf-8", "replace"))
    finally:
        os.close(file)


def _parse_record(record: str) -> Iterator[tuple[float, str]]:
    found = _LINE.match(record.split("\n", 1)[0])
    if found:
        yield int(found.group(3)) / 1e6, found.group(4)


def write_mark(tree: Tree) -> None:
    """Write the mark. Raises OSError."""
    write_line(tree, MARK)


def write_line(tree: Tree, line: str) -> None:
    """A line into the log, as a notice. Raises OSError."""
    # Python's own files ask where they are, which this one refuses to tell.
    descriptor = os.open(tree.at("/dev/kmsg"), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"<5>{line}\n".encode("ascii"))
    finally:
        os.close(descriptor)
