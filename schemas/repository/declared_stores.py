"""The secret stores that count: the owner's and the repository's, and who may have what of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from schemas.files.sops_files import SopsFile
from schemas.kinds.secret_store import EVERYBODY, SecretStore
from schemas.problems.text import did_you_mean
from schemas.values.names import SECRET_PATTERN

_REFERENCE = re.compile(SECRET_PATTERN.removesuffix("$") + r"\Z")
_WILDCARDS = frozenset("*?")


@dataclass(frozen=True, slots=True)
class OwnerStores:
    """What the owner of the cluster declares. `final`: a store that is declared nowhere is a mistake, not
    merely unknown here."""

    stores: Mapping[str, SecretStore] = field(default_factory=dict)
    final: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredStore:
    """A store, with its encrypted file where it has one, or why that cannot be used."""

    store: SecretStore
    sealed: SopsFile | None = None
    why: str = ""

    def offers(self, entry: str) -> bool:
        """Whether its declaration lists an entry."""
        entries = self.store.spec.entries
        return entry in entries or any(fnmatchcase(entry, each) for each in entries if set(each) & _WILDCARDS)


@dataclass(frozen=True, slots=True)
class SecretRefusal:
    """Why a secret is not to be had, what would help, and whether that is only not known here."""

    why: str
    hint: str
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredStores:
    """All stores by name."""

    stores: Mapping[str, DeclaredStore] = field(default_factory=dict)
    final: bool = True

    def granted_to(self, project: str | None) -> DeclaredStores:
        """Those that a project's sessions may use: for who is to know of no others."""
        found = {name: each for name, each in self.stores.items() if _is_granted(each, project)}
        return DeclaredStores(found)

    def refusal(self, reference: str, project: str | None) -> SecretRefusal | None:
        """Why the sessions of a project, or (None) infrastructure, may not have `STORE/ENTRY`; None when they
        may. Reads no value."""
        if not _REFERENCE.match(reference):
            return SecretRefusal("this is not STORE/ENTRY", "")
        name, _, entry = reference.partition("/")
        declared = self.stores.get(name)
        if declared is None:
            return self._unknown(name)
        spec = declared.store.spec
        if project is None:
            if not spec.infrastructure:
                hint = "it takes a store with infrastructure: true"
                return SecretRefusal(f"the store '{name}' is not granted to infrastructure", hint)
        elif not _is_granted(declared, project):
            hint = f"it takes a store with projects: [{project}]"
            return SecretRefusal(
                f"the store '{name}' is not granted to sessions of project '{project}'", hint
            )
        if not declared.offers(entry):
            hint = did_you_mean(entry, spec.entries) or f"it lists {', '.join(spec.entries[:8])}"
            return SecretRefusal(f"the store '{name}' lists no entry '{entry}'", hint)
        return _sops_refusal(declared, entry)

    def _unknown(self, name: str) -> SecretRefusal:
        if not self.final:
            hint = "its owner's file is not here (--secret-stores); whoever applies must have it"
            return SecretRefusal(f"the store '{name}' is not declared on this machine", hint, unknown=True)
        hint = did_you_mean(name, self.stores)
        if not hint.startswith("did"):
            hint = "declare a SecretStore in the file of --secret-stores, or one of sops in the repository"
        return SecretRefusal(f"there is no SecretStore '{name}'", hint)


def _is_granted(declared: DeclaredStore, project: str | None) -> bool:
    return project in declared.store.spec.projects or EVERYBODY in declared.store.spec.projects


def _sops_refusal(declared: DeclaredStore, entry: str) -> SecretRefusal | None:
    if declared.store.spec.sops is None:
        return None
    path, name = declared.store.spec.sops.file, declared.store.name
    if declared.sealed is None:
        return SecretRefusal(
            f"the file {path} of store '{name}' cannot be used: {declared.why}", "mend the file"
        )
    if entry not in declared.sealed.entries:
        hint = f"sops set {path} '[\"{entry}\"]' ..."
        return SecretRefusal(f"the file {path} of store '{name}' has no encrypted text '{entry}'", hint)
    return None


NO_OWNER = OwnerStores()
"""Where nobody looked for an owner's file."""
NO_STORES = DeclaredStores()
