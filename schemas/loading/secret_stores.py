"""Secret stores while documents are loaded: which count, which files are theirs, and who names what he may
not have."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from schemas.files.sops_files import SopsFile, parse_sops_file, sops_reference
from schemas.files.sources import Source, escapes_root
from schemas.kinds.secret_store import SecretStore
from schemas.loading.captures import candidate_paths
from schemas.loading.documents import Document
from schemas.problems.errors.repository import CannotRead
from schemas.problems.issues import Issue
from schemas.repository.declared_stores import DeclaredStore, DeclaredStores, OwnerStores
from schemas.rules.secret_rules import repository_store_rules, secret_uses
from schemas.values.envelope import Resource
from schemas.values.resource_ref import identity_of


class StoreLoader:
    """Of one loading. `declared` holds the owner's, and after `declare` the repository's as well."""

    def __init__(self, source: Source, owner: OwnerStores) -> None:
        self._source, self._owner = source, owner
        self.declared = DeclaredStores({}, owner.final)
        self._faulty: set[str] = set()

    def encrypted_files(self, documents: Iterable[tuple[str, Any]], files: Collection[str]) -> set[str]:
        """Those among `files` that are encrypted, and no documents."""
        asked = [(file, sops_reference(value)) for file, value in documents]
        asked += [("", store.spec.sops.file) for store in self._owner.stores.values() if store.spec.sops]
        found = (candidate_paths(file, reference) for file, reference in asked if reference)
        return {path for paths in found for path in paths if path in files}

    def declare(self, documents: Iterable[Document]) -> Iterator[tuple[Document, Issue]]:
        """Take up the owner's stores and those of sound documents; gives what is wrong with these."""
        known = {name: self._open_store("", store) for name, store in self._owner.stores.items()}
        for document in documents:
            store = document.resource
            if not isinstance(store, SecretStore):
                continue
            refused = list(repository_store_rules(store, self._owner.stores))
            yield from ((document, issue) for issue in refused)
            if refused:
                self._faulty.add(store.identity)
                continue
            known[store.name] = found = self._open_store(document.file, store)
            if found.sealed is None:
                yield document, Issue(("spec", "sops", "file"), found.why, code="BAI-V058")
        self.declared = DeclaredStores(known, self._owner.final)

    def _open_store(self, file: str, store: SecretStore) -> DeclaredStore:
        if store.spec.sops is None:
            return DeclaredStore(store)
        try:
            return DeclaredStore(store, self._read_sops_file(file, store.spec.sops.file))
        except ValueError as error:
            return DeclaredStore(store, why=str(error))

    def _read_sops_file(self, file: str, reference: str) -> SopsFile:
        """Raises ValueError."""
        for path in candidate_paths(file, reference) if file else [posixpath.normpath(reference)]:
            if escapes_root(path):
                continue
            try:
                data = self._source.data(path)
            except CannotRead:
                continue
            return parse_sops_file(path, data)
        raise ValueError("there is no such plain file in the repository")

    def secret_issues(
        self, resource: Resource, broken: Collection[str], *, granted_alone: bool = False
    ) -> Iterator[tuple[Issue, bool]]:
        """The secrets that a document names and may not have; True where that is only not known here. Nothing
        is said of stores whose documents are `broken`, which are told themselves. `granted_alone`: as if
        there were no others."""
        for use in secret_uses(resource):
            declared = self.declared.granted_to(use.project) if granted_alone else self.declared
            refusal = declared.refusal(use.reference, use.project)
            store = identity_of("SecretStore", use.reference.partition("/")[0])
            if refusal is not None and store not in broken and store not in self._faulty:
                code = "BAI-V093" if refusal.unknown else "BAI-V057"
                yield Issue(use.at, refusal.why, refusal.hint, code), refusal.unknown
