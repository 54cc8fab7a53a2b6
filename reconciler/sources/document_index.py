"""What is known of the documents of a folder, remembered between commands: what those of a cluster want
(identities and digests), or that all are right, so that a command which asks for no more neither parses nor
judges thousands of documents that have not changed.

An index is a file of the user's own cache, found by the folder and what it is about, and counts for exactly
the bytes that it was made of: of all document files, and of every other file that was read with them. Only
what was right has one. What cannot be used, for whatever reason, is as if it were not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.sources.sealed_files import (
    code_fingerprint,
    digest_of,
    read_sealed_file,
    user_cache_folder,
    write_sealed_file,
)
from schemas.problems.errors.repository import CannotRead

if TYPE_CHECKING:
    from reconciler.sources.source import Source
    from schemas.files.sources import Source as Files
    from schemas.files.sources import SourceFile
    from schemas.loading.document_cache import DocumentCache
    from schemas.repository.repository import Repository

FORMAT = "bai.document-index/2"
_MODULES = ("schemas", "reconciler/sources", "reconciler/values")
"""Whose code says what documents mean: what another one said does not count."""


@dataclass(frozen=True, slots=True)
class DocumentIndex:
    """Where an index of documents is. Never raises: without an index there is none."""

    source: Source
    about: str
    """What it says, and of which cluster."""
    folder: Path
    code: tuple[str, ...] = _MODULES
    """Folders of the modules that it rests on."""

    @classmethod
    def of_user(cls, source: Source, about: str, code: tuple[str, ...] = _MODULES) -> DocumentIndex | None:
        """In the user's own cache; None without a home, or where the user wants none."""
        folder = user_cache_folder()
        return cls(source, about, folder, code) if folder is not None else None

    def read(self) -> Mapping[str, Any] | None:
        """What was written of the documents as they are now; None: not known."""
        if not self._is_possible:
            return None
        try:
            found = read_sealed_file(self._path, FORMAT)
            files = self.source.file_source()
            if (
                found is None
                or not (isinstance(found.get("answer"), dict) and isinstance(found.get("others"), dict))
                or found.get("key") != _key(files.files(), self.code)
                or not _holds(found["others"], files)
            ):
                return None
        except (OSError, CannotRead, ValueError):
            return None
        answer: Mapping[str, Any] = found["answer"]
        return answer

    def write(self, answer: Mapping[str, Any], repository: Repository, cache: DocumentCache) -> None:
        """Remember what follows, as JSON has it, from documents in which nothing is wrong; `cache`: through
        which they were read. Not where a stranger's plugin has a say: that may be another one by then."""
        from schemas.rules.plugin_rules import names_plugin

        read = cache.last_read()
        if not self._is_possible or read is None or any(map(names_plugin, repository.resources.values())):
            return
        files, others = read
        with contextlib.suppress(OSError, CannotRead):
            hashes = {
                path: None if data is None else digest_of(data) for path, data in sorted(others.items())
            }
            content = {"key": _key(files, self.code), "others": hashes, "answer": dict(answer)}
            write_sealed_file(self._path, FORMAT, content)

    @property
    def _is_possible(self) -> bool:
        """Not for commits, nor where the owner's secret stores have a say."""
        source = self.source
        return source.revision is None and not (source.left_out or source.owner.stores or source.owner.final)

    @property
    def _path(self) -> Path:
        named = b"%b\0%b" % (os.fsencode(self.source.directory), self.about.encode())
        return self.folder / f"{digest_of(named)[:32]}.index"


def _key(files: Iterable[SourceFile], code: tuple[str, ...]) -> str:
    """Of all document files, read by this code. Raises CannotRead for one that has a problem."""
    found = hashlib.sha256(code_fingerprint(code).encode())
    for file in files:
        if file.problem is not None:
            raise CannotRead(what=file.path, why=file.problem.message)
        path = file.path.encode(errors="surrogateescape")
        found.update(b"%d %b %d " % (len(path), path, len(file.data)))
        found.update(file.data)
    return found.hexdigest()


def _holds(others: Mapping[str, str | None], files: Files) -> bool:
    return all(_digest_of(files, path) == digest for path, digest in others.items())


def _digest_of(files: Files, path: str) -> str | None:
    """None for what cannot be read."""
    try:
        return digest_of(files.data(path))
    except CannotRead:
        return None
