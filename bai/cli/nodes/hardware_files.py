"""Captured hardware in files of any known format."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bai.cli.formats import Format
from bai.settings import Settings
from schemas.files.regular_files import read_regular_file
from schemas.files.sources import LARGEST_DATA
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.problem import Problem

if TYPE_CHECKING:
    from schemas.hardware.model import Hardware


def read_captures(files: Iterable[Path]) -> list[tuple[Path, Hardware]]:
    """The machine of each file. Raises InvalidRepository with all problems of all files, and OSError."""
    from schemas.hardware.capture_reader import HardwareError, read_hardware

    found: list[tuple[Path, Hardware]] = []
    problems: list[Problem] = []
    for path in files:
        try:
            found.append((path, read_hardware(str(path), read_regular_file(path, LARGEST_DATA))))
        except HardwareError as error:
            problems += error.problems
    if problems:
        raise InvalidRepository(tuple(problems), where="the captured hardware")
    return found


def merge_captures(files: Sequence[Path]) -> Hardware:
    """The one machine that all files are captures of. Raises InvalidRepository, and OSError."""
    from schemas.hardware.capture_reader import HardwareError, read_captures

    try:
        return read_captures([(str(path), read_regular_file(path, LARGEST_DATA)) for path in files])
    except HardwareError as error:
        raise InvalidRepository(error.problems, where="the captured hardware") from None


def print_hardware(settings: Settings, found: Sequence[tuple[Path, Hardware]], format: Format) -> None:
    """Each machine in words, or as JSON with what is unknown on stderr."""
    if format is Format.json:
        for path, hardware in found:
            _warn_of_unknown(path, hardware)
            sys.stdout.write(_hardware_text(hardware))
        return
    from rich.console import Group

    from bai.cli.output import print_renderable
    from bai.render.nodes.hardware import render_hardware

    for at, (path, hardware) in enumerate(found):
        print_renderable(settings, Group(*([""] if at else []), *render_hardware(hardware, str(path))))


def write_hardware(found: Iterable[tuple[Path, Hardware]], folder: Path) -> None:
    """One JSON file per machine, named like its capture; raises OSError."""
    from schemas.files.atomic_files import write_atomically

    for path, hardware in found:
        _warn_of_unknown(path, hardware)
        target = folder / f"{path.stem}.json"
        write_atomically(target, _hardware_text(hardware))
        print(target)


def _hardware_text(hardware: Hardware) -> str:
    return hardware.model_dump_json(by_alias=True, exclude_defaults=True, indent=2) + "\n"


def _warn_of_unknown(path: Path, hardware: Hardware) -> None:
    for what in hardware.unknown:
        print(f"warning: {path} does not tell: {what}", file=sys.stderr)
