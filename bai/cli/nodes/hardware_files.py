"""Captured hardware in files of any known format."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bai.cli.formats import Format
from bai.settings import Settings
from schemas.files.plain_files import read_plain
from schemas.files.sources import LARGEST_DATA
from schemas.problems.errors import InvalidRepository, Problem

if TYPE_CHECKING:
    from schemas.hardware.model import Hardware


def imported(files: Iterable[Path]) -> list[tuple[Path, Hardware]]:
    """The machine of each file. Raises InvalidRepository with all problems of all files, and OSError."""
    from schemas.hardware.read import HardwareError, read_hardware

    found: list[tuple[Path, Hardware]] = []
    problems: list[Problem] = []
    for path in files:
        try:
            found.append((path, read_hardware(str(path), read_plain(path, LARGEST_DATA))))
        except HardwareError as error:
            problems += error.problems
    if problems:
        raise InvalidRepository(tuple(problems), where="the captured hardware")
    return found


def together(files: Sequence[Path]) -> Hardware:
    """The one machine that all files are captures of. Raises InvalidRepository, and OSError."""
    from schemas.hardware.read import HardwareError, read_together

    try:
        return read_together([(str(path), read_plain(path, LARGEST_DATA)) for path in files])
    except HardwareError as error:
        raise InvalidRepository(error.problems, where="the captured hardware") from None


def print_all(settings: Settings, found: Sequence[tuple[Path, Hardware]], format: Format) -> None:
    """Each machine in words, or as JSON with what is unknown on stderr."""
    if format is Format.json:
        for path, hardware in found:
            _warn(path, hardware)
            sys.stdout.write(_json(hardware))
        return
    from rich.console import Group

    from bai.cli.output import show
    from bai.render.nodes.hardware import render

    for at, (path, hardware) in enumerate(found):
        show(settings, Group(*([""] if at else []), *render(hardware, str(path))))


def write_all(found: Iterable[tuple[Path, Hardware]], folder: Path) -> None:
    """One JSON file per machine, named like its capture; raises OSError."""
    from bai.cli.atomic_files import write_whole

    for path, hardware in found:
        _warn(path, hardware)
        target = folder / f"{path.stem}.json"
        write_whole(target, _json(hardware))
        print(target)


def _json(hardware: Hardware) -> str:
    return hardware.model_dump_json(by_alias=True, exclude_defaults=True, indent=2) + "\n"


def _warn(path: Path, hardware: Hardware) -> None:
    for what in hardware.unknown:
        print(f"warning: {path} does not tell: {what}", file=sys.stderr)
