"""Formatting files: everything is read and formatted before the first file is written."""

from __future__ import annotations

import difflib
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bai.render.humanize import clean
from schemas.files.regular_files import read_regular_file
from schemas.files.yaml_reader import LARGEST_FILE
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from schemas.problems.problem import Problem


@dataclass(frozen=True, slots=True)
class Reformatted:
    """A file whose text would change."""

    path: Path
    before: str
    after: str


def changed_files(paths: Iterable[Path]) -> list[Reformatted]:
    """What would change below these files and directories.

    Raises InvalidRepository with the problems of every file that cannot be read as YAML, and CannotRead.
    """
    from schemas.loading.fmt import format_text

    found: list[Reformatted] = []
    problems: list[Problem] = []
    for path, data in _read_documents(paths, problems):
        try:
            after = format_text(data, str(path))
        except InvalidRepository as error:
            problems += error.problems
            continue
        if after.encode() != data:
            found.append(Reformatted(path, data.decode("utf-8-sig"), after))
    if problems:
        raise InvalidRepository(tuple(problems), where="the files to be formatted")
    return found


def _read_documents(paths: Iterable[Path], problems: list[Problem]) -> Iterator[tuple[Path, bytes]]:
    from schemas.files.sources import DirectorySource

    for path in paths:
        if path.is_dir():
            for file in DirectorySource(path).files():
                if file.problem:
                    problems.append(file.problem)
                elif not (path / file.path).is_symlink():
                    yield path / file.path, file.data
        else:
            yield path, _read_file(path)


def _read_file(path: Path) -> bytes:
    try:
        return read_regular_file(path, LARGEST_FILE)
    except OSError as error:
        raise CannotRead(what=path, why=(error.strerror or str(error)).lower()) from None


def write_formatted(item: Reformatted) -> None:
    """Replace the file, keeping its mode."""
    from schemas.files.atomic_files import write_atomically

    write_atomically(item.path, item.after, mode=stat.S_IMODE(item.path.stat().st_mode))


def diff_lines(item: Reformatted) -> Iterator[str]:
    """A unified diff, safe to print."""
    name = str(item.path)
    lines = difflib.unified_diff(item.before.splitlines(), item.after.splitlines(), name, name, lineterm="")
    return (clean(line) for line in lines)


def format_stdin() -> None:
    """Standard input to standard output."""
    from bai.cli.output import write_document
    from schemas.loading.fmt import format_text

    write_document(format_text(sys.stdin.buffer.read(), "-"))
