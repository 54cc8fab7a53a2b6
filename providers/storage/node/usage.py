"""How much a folder holds."""

from __future__ import annotations

import os
import time

from providers.storage.node.walk import reference

PATIENCE = 20.0
"""Seconds after which counting stops: the figure is then a lower bound."""


def count(folder: int, patience: float = PATIENCE) -> tuple[int, bool]:
    """Bytes on disk, and whether everything was counted.

    Each file counts once however many names it has; other file systems mounted below do not count.
    """
    end = time.monotonic() + patience
    device = os.fstat(folder).st_dev
    total = os.fstat(folder).st_blocks * 512
    seen: set[int] = set()
    for _, folders, files, here in os.fwalk(".", dir_fd=folder, follow_symlinks=False, onerror=None):
        for name in list(folders) + files:
            stat = _stat(name, here)
            if stat is None or stat.st_dev != device:
                if name in folders:
                    folders.remove(name)
                continue
            if stat.st_nlink > 1 and name in files:
                if stat.st_ino in seen:
                    continue
                seen.add(stat.st_ino)
            total += stat.st_blocks * 512
        if time.monotonic() > end:
            return total, False
    return total, True


def _stat(name: str, here: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=here, follow_symlinks=False)
    except OSError:
        return None


def recursive(folder: int) -> int | None:
    """Bytes as CephFS counts them itself; None elsewhere."""
    try:
        return int(os.getxattr(reference(folder), "ceph.dir.rbytes"))
    except (OSError, ValueError):
        return None
