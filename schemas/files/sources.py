"""Where files come from: a directory or a git commit, behind one small seam."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from schemas.files.regular_files import read_regular_file
from schemas.files.yaml_reader import LARGEST_FILE
from schemas.problems.errors.repository import CannotRead
from schemas.problems.problem import Problem, SourceLocation
from schemas.problems.text import printable

SUFFIXES = (".yaml", ".yml")
_API_VERSION = re.compile(rb"""\bapiVersion['"]?\s*:\s*['"]?bai/""")
LARGEST_DATA = 64 * 1024 * 1024
"""Bytes of a file that is data and not documents (`hardwareFrom`)."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: its path relative to the root, with `/`, and its bytes, or why it cannot be read."""

    path: str
    data: bytes = b""
    problem: Problem | None = None


class Source(Protocol):
    """Files of one moment. `where` names it in messages; `commit` is the full hash, empty for a directory."""

    where: str
    commit: str

    def files(self) -> Iterator[SourceFile]:
        """Every file that may hold documents, by path. Raises CannotRead when the whole cannot be read."""
        ...

    def data(self, path: str) -> bytes:
        """The bytes of any other file. Raises CannotRead; never leaves the root."""
        ...


def mentions_api_version(data: bytes) -> bool:
    """Whether a file has a document of bai, as far as can be told without parsing it."""
    return _API_VERSION.search(data) is not None


def is_document_file(name: str) -> bool:
    """Whether a file of this name holds documents."""
    return name.endswith(SUFFIXES) and not name.startswith(".")


def escapes_root(path: str) -> bool:
    """Whether a relative path is absolute or climbs out of where it starts."""
    depth = 0
    for part in PurePosixPath(path).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return path.startswith("/")


def refused_file(path: str, code: str, message: str, hint: str = "") -> SourceFile:
    """A file that is not read."""
    return SourceFile(path, problem=Problem(SourceLocation(printable(path)), code, "", message, hint))


class DirectorySource:
    """The files of a directory as they are now; directories whose names begin with a dot are skipped."""

    commit = ""

    def __init__(
        self,
        root: str | os.PathLike[str],
        left_out: Container[str] = (),
        read: Callable[[str | os.PathLike[str], int], bytes] = read_regular_file,
    ) -> None:
        """`left_out`: files that are not given, as `printable` writes their paths; `read`: gives a file's
        bytes, of which there may be so many."""
        self.root = Path(root)
        self._left_out, self._read = left_out, read
        self.where = printable(str(root))
        if not self.root.is_dir():
            why = "it is not a directory" if self.root.exists() else "there is no such directory"
            raise CannotRead(what=self.where, why=why)
        self._real = os.path.realpath(self.root)

    def files(self) -> Iterator[SourceFile]:
        yield from self._below(self.root, "")

    def _below(self, directory: Path, prefix: str) -> Iterator[SourceFile]:
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError as error:
            yield refused_file(prefix or ".", "BAI-V001", f"the directory cannot be read: {error.strerror}")
            return
        for entry in entries:
            path = prefix + entry.name
            if entry.is_symlink():
                if printable(path) not in self._left_out:
                    yield from self._link(Path(entry.path), path)
            elif entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith("."):
                    yield from self._below(Path(entry.path), path + "/")
            elif is_document_file(entry.name) and printable(path) not in self._left_out:
                yield self._file(Path(entry.path), path)

    def _link(self, link: Path, path: str) -> Iterator[SourceFile]:
        """A link to what is read anyway is skipped; one that leaves the root, or hides a file, is refused."""
        if link.name.startswith(".") or not (os.path.isdir(link) or is_document_file(link.name)):
            return
        try:
            target = os.path.realpath(link)
        except OSError as error:
            yield refused_file(path, "BAI-V001", f"the symbolic link cannot be read: {error.strerror}")
            return
        inside = target.startswith(self._real + os.sep)
        if not inside:
            yield refused_file(
                path, "BAI-V004", "a symbolic link that leaves the repository", "copy what it points to"
            )
        elif not os.path.exists(link):
            yield refused_file(path, "BAI-V001", "a symbolic link to nothing")
        elif not (os.path.isdir(link) or is_document_file(target)):
            yield refused_file(
                path, "BAI-V004", "a symbolic link to a file that is not read", "rename the file to *.yaml"
            )

    def _file(self, file: Path, path: str) -> SourceFile:
        try:
            return SourceFile(path, self._read(file, LARGEST_FILE))
        except OSError as error:
            if error.errno == errno.EFBIG:
                message = f"more than {LARGEST_FILE} bytes, which is most that a file of documents holds"
                return refused_file(path, "BAI-V002", message, "split it")
            return refused_file(path, "BAI-V001", f"the file cannot be read: {error.strerror or error}")

    def data(self, path: str) -> bytes:
        try:
            real = os.path.realpath(self.root / path)
            if escapes_root(path) or not real.startswith(self._real + os.sep):
                raise CannotRead(what=printable(path), why="it is outside of the repository")
            return self._read(real, LARGEST_DATA)
        except OSError as error:
            raise CannotRead(what=printable(path), why=str(error.strerror or error)) from None
