"""The files of one git commit, read from the object store: no checkout, no index, no working directory."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from schemas.files.git_objects import (
    LINK_MODE,
    REGULAR_FILE_MODES,
    TreeEntry,
    list_tree,
    read_objects,
    resolve_commit,
)
from schemas.files.git_process import git_lines
from schemas.files.sources import LARGEST_DATA, SourceFile, escapes_root, is_document_file, refused_file
from schemas.files.yaml_reader import LARGEST_FILE
from schemas.problems.errors.repository import CannotRead
from schemas.problems.text import printable

_HEADER_BYTES = 128
"""What git says of a blob before and after its bytes, at most."""
_READ_MODES = (*REGULAR_FILE_MODES, LINK_MODE)


class CommitSource:
    """The files below `subpath` of a commit. Raises CannotRead without such a repository or commit."""

    def __init__(self, git_dir: str | os.PathLike[str], revision: str, subpath: str = "") -> None:
        self._folder = Path(git_dir)
        self.commit = resolve_commit(self._folder, revision)
        folder = posixpath.normpath(subpath).strip("/") if subpath else ""
        self._subpath = "" if folder == "." else folder
        self.where = f"commit {self.commit[:12]}" + (f" ({self._subpath})" if self._subpath else "")
        self._entries = {entry.path: entry for entry in self._list()}

    def files(self) -> Iterator[SourceFile]:
        wanted = [entry for entry in self._entries.values() if self._is_wanted(entry)]
        blobs = self._blobs([e for e in wanted if e.mode in _READ_MODES and e.size <= LARGEST_FILE])
        for entry in wanted:
            if entry.size > LARGEST_FILE:
                yield refused_file(
                    entry.path,
                    "BAI-V002",
                    f"{entry.size} bytes; a file holds at most {LARGEST_FILE}",
                    "split it",
                )
            elif entry.mode == LINK_MODE:
                yield from self._link(entry, blobs[entry.name].decode("utf-8", "replace"))
            elif entry.name in blobs:
                yield SourceFile(entry.path, blobs[entry.name])

    def data(self, path: str) -> bytes:
        entry = self._entries.get(posixpath.normpath(path))
        if escapes_root(path) or entry is None or entry.mode not in REGULAR_FILE_MODES:
            raise CannotRead(what=printable(path), why=f"there is no such file in {self.where}")
        if entry.size > LARGEST_DATA:
            raise CannotRead(what=printable(path), why=f"it has {entry.size} bytes")
        return self._blobs([entry])[entry.name]

    def _is_wanted(self, entry: TreeEntry) -> bool:
        folders = entry.path.split("/")[:-1]
        hidden = any(folder.startswith(".") for folder in folders)
        return not hidden and (is_document_file(entry.path.rpartition("/")[2]) or entry.mode == LINK_MODE)

    @cached_property
    def _folders(self) -> frozenset[str]:
        return frozenset(
            path[:at] for path in self._entries for at, letter in enumerate(path) if letter == "/"
        )

    def _link(self, entry: TreeEntry, target: str) -> Iterator[SourceFile]:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), target))
        folder = path in self._folders
        leaves = target.startswith("/") or escapes_root(path)
        if not (folder or is_document_file(posixpath.basename(entry.path)) or leaves):
            return
        if leaves:
            yield refused_file(
                entry.path, "BAI-V004", "a symbolic link that leaves the repository", "copy what it points to"
            )
        elif not folder and path not in self._entries:
            yield refused_file(entry.path, "BAI-V001", "a symbolic link to nothing")
        elif not folder and not is_document_file(posixpath.basename(path)):
            yield refused_file(
                entry.path,
                "BAI-V004",
                "a symbolic link to a file that is not read",
                "rename the file to *.yaml",
            )

    def _list(self) -> Iterator[TreeEntry]:
        tree = f"{self.commit}:{self._subpath}"
        try:
            found = list(list_tree(self._folder, "-r", tree, what=self.where))
        except CannotRead:
            if git_lines(self._folder, "rev-parse", "--verify", "--quiet", tree):
                raise
            raise CannotRead(
                what=printable(self._subpath), why=f"there is no such folder in {self.commit[:12]}"
            ) from None
        return (entry for entry in found if entry.kind == "blob")

    def _blobs(self, entries: Sequence[TreeEntry]) -> dict[str, bytes]:
        """The bytes of blobs by their names."""
        sizes = {entry.name: entry.size for entry in entries}
        limit = sum(sizes.values()) + len(sizes) * _HEADER_BYTES
        found = read_objects(self._folder, list(sizes), "blob", what=self.where, limit=limit)
        blobs: dict[str, bytes] = {}
        for name, data in zip(sizes, found, strict=True):
            if data is None:
                raise CannotRead(what=self.where, why=f"object {name} is missing")
            blobs[name] = data
        return blobs
