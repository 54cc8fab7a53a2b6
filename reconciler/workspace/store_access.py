"""The store of a cluster, opened by what the cluster's own document says: for commands whose answer rests on
no other."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from reconciler.store.database.address import StoreAddress
from reconciler.values.clock import Clock, SystemClock

if TYPE_CHECKING:
    from reconciler.sources.document_index import DocumentIndex
    from reconciler.sources.source import Source
    from reconciler.store.database.asked_questions import AskedQuestion
    from reconciler.store.reader import FileReader, StoreReader
    from reconciler.store.store import Store
    from schemas.kinds.cluster import Cluster


class StoreAccess:
    """Use as a context manager, or call `close`. Raises StoreError when the store is first needed."""

    def __init__(self, source: Source, cluster: Cluster, state: StoreAddress, clock: Clock) -> None:
        self.source = source
        self.cluster = cluster
        self.state = state
        """Where the store is."""
        self.clock = clock
        self._store: Store | None = None
        self._reader: FileReader | None = None
        self._repo = ""

    @property
    def repo_id(self) -> str:
        """What marks this repository's kernels; remembered by the store, so that a first commit does not
        change it."""
        if not self._repo:
            known = None
            if self.has_store:
                from reconciler.store.ownership import known_repository

                known = known_repository(self.reader, self.cluster.name)
            self._repo = known or self.source.repo
        return self._repo

    def indexed_digests(self) -> Mapping[str, str] | None:
        """Identity → digest of all that the documents want, where an index of them says so."""
        index = self._document_index()
        return index.read() if index is not None else None

    def _document_index(self) -> DocumentIndex | None:
        from reconciler.sources.document_index import DocumentIndex

        return DocumentIndex.of_user(self.source, f"digests {self.cluster.name}")

    @property
    def has_store(self) -> bool:
        """Whether anything was ever written down here. A server that was named is there, or says why not."""
        return self._store is not None or self.state.path is None or self.state.path.exists()

    @property
    def store(self) -> Store:
        if self._store is None:
            from reconciler.store.store import Store

            self._store = Store.open(self.state)
        return self._store

    @property
    def reader(self) -> StoreReader:
        """The store for who only asks it: a file is asked without what only writing needs."""
        if self._store is None and self._reader is None:
            from reconciler.store.reader import open_file_reader

            self._reader = open_file_reader(self.state)
        return self._store or self._reader or self.store

    @property
    def existing_reader(self) -> StoreReader | None:
        """The same; None where nothing was ever written down."""
        return self.reader if self.has_store else None

    @property
    def existing_store(self) -> Store | None:
        """The store; None where nothing was ever written down."""
        return self.store if self.has_store else None

    def note_questions(self) -> None:
        """From here on what a store's file is asked is noted, with what it answers. For who has asked nothing
        yet: of what was known before, nothing would be noted."""
        untouched = self._store is None and self._reader is None and not self._repo
        if untouched and self.existing_reader is not None and self._reader is not None:
            self._reader.asked = []

    @property
    def asked_questions(self) -> tuple[AskedQuestion, ...] | None:
        """All that was asked; None where anything was asked that is not noted."""
        reader = self._reader if self._store is None else None
        return None if reader is None or reader.asked is None else tuple(reader.asked)

    def close(self) -> None:
        for opened in (self._store, self._reader):
            if opened is not None:
                opened.close()
        self._store = self._reader = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_store_access(source: Source, cluster: str | None, state: str | None) -> StoreAccess | None:
    """By the document of the named cluster, or the only one; None where that is not clear from Cluster
    documents alone, for it is all documents then that say what is wrong. `state` as for a workspace.

    Raises CannotRead, StoreError.
    """
    from schemas.kinds.cluster import Cluster
    from schemas.loading.selected_kinds import load_kinds

    found = load_kinds(source.file_source(), {"Cluster": Cluster})
    clusters = [one for one in found or () if isinstance(one, Cluster)]
    chosen = [one for one in clusters if cluster in (None, one.name)]
    if len(chosen) != 1:
        return None
    address = StoreAddress.choose(source.directory, state, named=chosen[0].spec.state)
    return StoreAccess(source, chosen[0], address, SystemClock())
