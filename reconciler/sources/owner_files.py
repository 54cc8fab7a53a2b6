"""Files of the owner's: settings of the machine that runs bai, which no document may change."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from schemas.files.regular_files import open_regular_file, read_descriptor
from schemas.files.yaml_reader import LARGEST_FILE
from schemas.problems.errors.repository import CannotRead

SYSTEM_FOLDER = Path("/etc/bai")


def find_owner_file(environment: str, name: str) -> Path | None:
    """The file that the variable names, else `name` in the user's or the system's folder of settings."""
    if named := os.environ.get(environment):
        return Path(named)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return next((path for path in (home / "bai" / name, SYSTEM_FOLDER / name) if path.is_file()), None)


def read_owner_file(path: Path, folders: Sequence[Path]) -> bytes:
    """What it holds. Raises CannotRead, also where it lies in one of `folders`, which documents are in, or
    where everybody may write to it."""
    real = path.expanduser().resolve()
    if any(real.is_relative_to(folder.resolve()) for folder in folders):
        why = "it lies in the repository, where documents could change it; move it elsewhere"
        raise CannotRead(what=str(path), why=why)
    try:
        descriptor = open_regular_file(real)
        try:
            if os.fstat(descriptor).st_mode & stat.S_IWOTH:
                raise CannotRead(what=str(path), why="everybody may write to it: chmod o-w")
            return read_descriptor(descriptor, real, LARGEST_FILE)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CannotRead(what=str(path), why=error.strerror or str(error)) from None
