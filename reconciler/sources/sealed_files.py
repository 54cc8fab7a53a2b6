"""Files of the user's own cache: what can be made again, as JSON under a head that says what it is. What is
cut off, changed, linked, somebody else's or writable by others is as if it were not there."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.files.atomic_files import write_atomically
from schemas.files.regular_files import open_regular_file, read_descriptor

SWITCH = "BAI_CACHE"
"""An environment variable: `off` for doing without what is remembered between commands."""
MOST_FILES = 32
"""Of a folder and a suffix; the oldest go."""
_LARGEST = 64 << 20
_MOST_OF_HEAD = 1024


def user_cache_folder() -> Path | None:
    """Where this user keeps what can be made again; None without a home, or where the user wants none."""
    if os.environ.get(SWITCH) == "off":
        return None
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named) / "bai" / "documents"
    with contextlib.suppress(RuntimeError):
        return Path.home() / ".cache" / "bai" / "documents"
    return None


def read_sealed_file(path: Path, format: str) -> dict[str, Any] | None:
    """What was written; None for what is not whole. Raises ValueError, and OSError, also for a file, or a
    folder around it, that somebody else could have written."""
    head, _, body = _read_own_file(path).partition(b"\n")
    if head.decode("ascii") != f"{format} {digest_of(body)}":
        return None
    found = json.loads(body)
    return found if isinstance(found, dict) else None


def write_sealed_file(path: Path, format: str, content: Mapping[str, Any]) -> None:
    """Nothing where it is too large. Raises OSError."""
    text = json.dumps(content, separators=(",", ":"))
    if len(text) > _LARGEST - _MOST_OF_HEAD:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_own(os.stat(path.parent))
    write_atomically(path, f"{format} {digest_of(text.encode())}\n{text}", 0o600)
    _remove_oldest(path.parent, path.suffix)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@functools.cache
def code_fingerprint(code: tuple[str, ...]) -> str:
    """Sizes and times of the modules of these folders, with what they are run by. Once for a process: what it
    has imported stays, whatever becomes of the files."""
    root = Path(__file__).parents[2]
    found = hashlib.sha256(f"{sys.version} {_installed_distributions()}\n".encode())
    for name in code:
        for folder, below, names in os.walk(root / name):
            below.sort()
            for module in sorted(each for each in names if each.endswith(".py")):
                status = os.stat(os.path.join(folder, module))
                found.update(f"{folder}/{module} {status.st_size} {status.st_mtime_ns}\n".encode())
    return found.hexdigest()


def _read_own_file(path: Path) -> bytes:
    _require_own(os.stat(path.parent, follow_symlinks=False))
    descriptor = open_regular_file(path, follow=False)
    try:
        _require_own(os.fstat(descriptor))
        return read_descriptor(descriptor, path, _LARGEST)
    finally:
        os.close(descriptor)


def _require_own(found: os.stat_result) -> None:
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("others may write to it")


def _installed_distributions() -> list[list[str]]:
    """Names of their folders, which have their versions: Pydantic and NumPy have a say in what comes out."""
    return [
        sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
        for folder in sys.path
        if folder.endswith(("site-packages", "dist-packages")) and os.path.isdir(folder)
    ]


def _remove_oldest(folder: Path, suffix: str) -> None:
    files = sorted(folder.glob(f"*{suffix}"), key=lambda each: each.stat().st_mtime_ns)
    for each in files[:-MOST_FILES]:
        each.unlink(missing_ok=True)
