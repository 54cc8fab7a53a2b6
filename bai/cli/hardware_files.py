"""Captured hardware in files of any known format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import InvalidRepository, Problem

if TYPE_CHECKING:
    from schemas.hardware.model import Hardware


def imported(files: Iterable[Path]) -> list[tuple[Path, Hardware]]:
    """The machine of each file. Raises InvalidRepository with all problems of all files, and OSError."""
    from schemas.hardware.read import HardwareError, read_hardware

    found: list[tuple[Path, Hardware]] = []
    problems: list[Problem] = []
    for path in files:
        try:
            found.append((path, read_hardware(str(path), path.read_bytes())))
        except HardwareError as error:
            problems += error.problems
    if problems:
        raise InvalidRepository(tuple(problems), where="the captured hardware")
    return found


def together(files: Sequence[Path]) -> Hardware:
    """The one machine that all files are captures of. Raises InvalidRepository, and OSError."""
    from schemas.hardware.read import HardwareError, read_together

    try:
        return read_together([(str(path), path.read_bytes()) for path in files])
    except HardwareError as error:
        raise InvalidRepository(error.problems, where="the captured hardware") from None
