"""Writing files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from schemas.problems.disk_space import is_disk_full


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace `path` by `text` through a temporary file beside it. Raises OSError, which names `path` when
    there is no room for it."""
    try:
        _write_and_rename(path, text, mode)
    except OSError as error:
        if is_disk_full(error):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _write_and_rename(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
