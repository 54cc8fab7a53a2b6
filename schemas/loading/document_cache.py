"""What loading one repository again and again need not do anew. Each part is found by all that it was made
of, so that nothing can be stale: a file's documents by its bytes, machines by their document and their
hardware, a whole repository by everything that was read of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace

from schemas.files.file_memory import FileMemory
from schemas.files.sources import DirectorySource, Source, SourceFile
from schemas.hardware.model import Hardware
from schemas.kinds.node import Node
from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.loading.changed_sessions import LoadedFiles, with_changed_sessions
from schemas.loading.draft import Draft
from schemas.loading.parsed_file import ParsedFile, parse_file
from schemas.problems.errors.repository import CannotRead
from schemas.problems.issues import Issue
from schemas.repository.declared_stores import OwnerStores
from schemas.repository.repository import Repository
from schemas.rules.membership import OtherDocuments
from schemas.values.memo import Memo


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A repository, and all that was read of it: its files, and what other files held, or that they could not
    be read."""

    files: tuple[SourceFile, ...]
    others: dict[str, bytes | None]
    owner: OwnerStores
    repository: Repository
    draft: Draft | None


RestoreFile = Callable[[SourceFile], ParsedFile]


class DocumentCache:
    """Of one repository. For one thread."""

    def __init__(self, restore: RestoreFile = parse_file) -> None:
        """`restore`: the documents of a file, as `parse_file` gives them."""
        self._parse_file = restore
        self._files = FileMemory()
        self._parsed: Memo[str, ParsedFile] = Memo()
        self.captures: Memo[str, Hardware | list[Issue]] = Memo()
        """Path of a capture → the machine in it, or what is wrong with it."""
        self.machines: Memo[str, tuple[Node, ...]] = Memo()
        """Identity of a Node or NodePool → its machines."""
        self._others: Memo[str, OtherDocuments] = Memo()
        self._loaded: _Loaded | None = None

    def fork(self) -> DocumentCache:
        """One more, for another thread, that begins with what this one knows of documents."""
        made = DocumentCache(self._parse_file)
        made._parsed, made.captures = self._parsed.fork(), self.captures.fork()
        made.machines, made._others = self.machines.fork(), self._others.fork()
        made._loaded = self._loaded
        return made

    def directory(self, path: str | os.PathLike[str], left_out: Container[str]) -> DirectorySource:
        """Its files, read only where they have changed since they were read through this."""
        return DirectorySource(path, left_out, self._files.read)

    def load(
        self,
        source: Source,
        owner: OwnerStores,
        load: Callable[[Source], Repository],
        draft: Draft | None = None,
    ) -> Repository:
        """What `load` gives; the last one again where nothing of what that read has changed, and it was for
        the same draft. Raises what `load` raises."""
        self._files.begin()
        known = self._loaded
        if known is not None and known.owner == owner and known.draft is draft:
            found = tuple(source.files())
            if all(_data_of(source, path) == data for path, data in known.others.items()):
                same = self._same_but_for_sessions(known, found)
                if same is not None:
                    return same if same.commit == source.commit else replace(same, commit=source.commit)
            recording = _RecordingSource(source, found)
        else:
            recording = _RecordingSource(source)
        for memo in (self._parsed, self.captures, self.machines, self._others):
            memo.begin()
        self._loaded = None
        repository = load(recording)
        self._loaded = _Loaded(tuple(recording.given), recording.others, owner, repository, draft)
        return repository

    def _same_but_for_sessions(self, known: _Loaded, files: tuple[SourceFile, ...]) -> Repository | None:
        """The one that is known, or with its sessions as they are now; None where something else has changed,
        or there is something to tell."""
        if files == known.files:
            return known.repository
        if known.draft is not None:
            return None
        loaded = LoadedFiles(known.repository, known.files, known.owner)
        made = with_changed_sessions(loaded, files, self.parse, self.other_documents)
        if made is not None:
            self._loaded = replace(known, files=files, repository=made)
        return made

    def last_read(self) -> tuple[tuple[SourceFile, ...], Mapping[str, bytes | None]] | None:
        """What the repository that was loaded last was made of: its files, and what other files held, or that
        they could not be read; None where nothing was loaded."""
        known = self._loaded
        return (known.files, known.others) if known is not None else None

    def other_documents(self, repository: Repository) -> OtherDocuments:
        """All but sessions and services, on which the rules for sessions rest."""
        found = repository.resources.values()
        others = tuple(each for each in found if not isinstance(each, Session | Service))
        made_of = (others, tuple(repository.machines.values()))
        return self._others.get("", made_of, lambda: OtherDocuments(repository))

    def parse(self, file: SourceFile) -> ParsedFile:
        """The documents of a file that could be read."""
        return self._parsed.get(file.path, (file.data,), lambda: self._parse_file(file))


class _RecordingSource:
    """A source that remembers what it was asked for. `files`: all of them, where they are known already."""

    def __init__(self, source: Source, files: tuple[SourceFile, ...] | None = None) -> None:
        self.where, self.commit = source.where, source.commit
        self._source, self._files = source, files
        self.given: list[SourceFile] = []
        self.others: dict[str, bytes | None] = {}

    def files(self) -> Iterator[SourceFile]:
        for file in self._source.files() if self._files is None else self._files:
            self.given.append(file)
            yield file

    def data(self, path: str) -> bytes:
        self.others[path] = None
        self.others[path] = found = self._source.data(path)
        return found


def _data_of(source: Source, path: str) -> bytes | None:
    try:
        return source.data(path)
    except CannotRead:
        return None
