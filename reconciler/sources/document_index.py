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
import json
import os
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.files.atomic_files import write_atomically
from schemas.files.regular_files import open_regular_file, read_descriptor
from schemas.problems.errors.repository import CannotRead

if TYPE_CHECKING:
    from reconciler.sources.source import Source
    from schemas.files.sources import Source as Files
    from schemas.files.sources import SourceFile
    from schemas.loading.document_cache import DocumentCache
    from schemas.repository.repository import Repository

FORMAT = "bai.document-index/2"
MOST_INDEXES = 32
"""Files of a cache; the oldest go."""
_LARGEST = 64 << 20
_MOST_OF_HEAD = 1024
_MODULES = ("schemas", "reconciler/sources", "reconciler/values")
"""Whose code says what documents mean: what another one said does not count."""
SWITCH = "BAI_CACHE"
"""An environment variable: `off` for doing without what is remembered between commands."""


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
        folder = user_cache_folder() if os.environ.get(SWITCH) != "off" else None
        return cls(source, about, folder, code) if folder is not None else None

    def read(self) -> Mapping[str, Any] | None:
        """What was written of the documents as they are now; None: not known."""
        if not self._is_possible:
            return None
        try:
            found = _parse(_read_own_file(self._path))
            files = self.source.file_source()
            if (
                found is None
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
            hashes = {path: None if data is None else _hash(data) for path, data in sorted(others.items())}
            content = {"key": _key(files, self.code), "others": hashes, "answer": dict(answer)}
            text = json.dumps(content, separators=(",", ":"))
            if len(text) > _LARGEST - _MOST_OF_HEAD:
                return
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _require_own(os.stat(self._path.parent))
            write_atomically(self._path, f"{FORMAT} {_hash(text.encode())}\n{text}", 0o600)
            _remove_oldest(self._path.parent)

    @property
    def _is_possible(self) -> bool:
        """Not for commits, nor where the owner's secret stores have a say."""
        source = self.source
        return source.revision is None and not (source.left_out or source.owner.stores or source.owner.final)

    @property
    def _path(self) -> Path:
        named = b"%b\0%b" % (os.fsencode(self.source.directory), self.about.encode())
        return self.folder / f"{_hash(named)[:32]}.index"


def _key(files: Iterable[SourceFile], code: tuple[str, ...]) -> str:
    """Of all document files, read by this code. Raises CannotRead for one that has a problem."""
    found = hashlib.sha256(_code_fingerprint(code).encode())
    for file in files:
        if file.problem is not None:
            raise CannotRead(what=file.path, why=file.problem.message)
        path = file.path.encode(errors="surrogateescape")
        found.update(b"%d %b %d " % (len(path), path, len(file.data)))
        found.update(file.data)
    return found.hexdigest()


def user_cache_folder() -> Path | None:
    """Where this user keeps what can be made again; None without a home."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named) / "bai" / "documents"
    with contextlib.suppress(RuntimeError):
        return Path.home() / ".cache" / "bai" / "documents"
    return None


def _read_own_file(path: Path) -> bytes:
    """Raises OSError, also for a file, or a folder around it, that somebody else could have written."""
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


def _parse(data: bytes) -> dict[str, Any] | None:
    """What was written; None for what is not whole. Raises ValueError."""
    head, _, body = data.partition(b"\n")
    if head.decode("ascii") != f"{FORMAT} {_hash(body)}":
        return None
    found = json.loads(body)
    if not isinstance(found, dict) or not isinstance(found.get("answer"), dict):
        return None
    return found if isinstance(found.get("others"), dict) else None


def _holds(others: Mapping[str, str | None], files: Files) -> bool:
    return all(_digest_of(files, path) == digest for path, digest in others.items())


def _digest_of(files: Files, path: str) -> str | None:
    """None for what cannot be read."""
    try:
        return _hash(files.data(path))
    except CannotRead:
        return None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _code_fingerprint(code: tuple[str, ...]) -> str:
    """Sizes and times of these folders' modules, with what they are run by."""
    root = Path(__file__).parents[2]
    found = hashlib.sha256(f"{sys.version} {_installed_distributions()}\n".encode())
    for name in code:
        for folder, below, names in os.walk(root / name):
            below.sort()
            for module in sorted(each for each in names if each.endswith(".py")):
                status = os.stat(os.path.join(folder, module))
                found.update(f"{folder}/{module} {status.st_size} {status.st_mtime_ns}\n".encode())
    return found.hexdigest()


def _installed_distributions() -> list[list[str]]:
    """Names of their folders, which have their versions: Pydantic and NumPy have a say in what comes out."""
    return [
        sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
        for folder in sys.path
        if folder.endswith(("site-packages", "dist-packages")) and os.path.isdir(folder)
    ]


def _remove_oldest(folder: Path) -> None:
    indexes = sorted(folder.glob("*.index"), key=lambda each: each.stat().st_mtime_ns)
    for each in indexes[:-MOST_INDEXES]:
        each.unlink(missing_ok=True)
