"""The owner's file: secret stores that open the machine that runs bai, and which no document can declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reconciler.sources.owner_files import found, read_own
from schemas.files.reading import Raw, read
from schemas.kinds.secret_store import SecretStore
from schemas.loading.documents import typed
from schemas.problems.errors import InvalidRepository, Place, Problem
from schemas.problems.issues import Issue
from schemas.problems.positions import Positions, path_text
from schemas.problems.text import printable
from schemas.repository.declared_stores import OwnerStores
from schemas.rules import document_rules

ENVIRONMENT = "BAI_SECRET_STORES"
NAME = "secret-stores.yaml"


def owner_stores(given: Path | None, folders: Sequence[Path], *, final: bool = False) -> OwnerStores:
    """What the owner declares in the file that is `given`, else in `BAI_SECRET_STORES`, else in the user's or
    the system's folder of settings; nothing without any. `folders`: where documents are, which the file must
    not lie in. `final`: stores that are declared nowhere are a mistake also without a file.

    Raises CannotRead, and InvalidRepository with every problem.
    """
    path = given or found(ENVIRONMENT, NAME)
    if path is None:
        return OwnerStores({}, final)
    return OwnerStores(_read(path, folders), True)


def _read(path: Path, folders: Sequence[Path]) -> Mapping[str, SecretStore]:
    data, where = read_own(path, folders), printable(str(path))
    raws, problems = read(data, where)
    positions = Positions(where, data)
    stores: dict[str, SecretStore] = {}
    for raw in raws:
        problems += [_problem(positions, raw, issue) for issue in _issues(raw, stores)]
    if problems:
        raise InvalidRepository(tuple(problems), where=where)
    return stores


def _issues(raw: Raw, found: dict[str, SecretStore]) -> Iterator[Issue]:
    """What is wrong with one document; a sound one is added to `found`."""
    if raw.value is None or not raw.sound:
        return
    resource, issues = typed(raw.value)
    yield from issues
    if resource is None:
        return
    if not isinstance(resource, SecretStore):
        yield Issue(("kind",), "the owner's file holds secret stores only", code="BAI-V016")
        return
    yield from document_rules.check(resource)
    if resource.name in found:
        yield Issue(("metadata", "name"), f"the store '{resource.name}' stands twice", code="BAI-V042")
    found[resource.name] = resource


def _problem(positions: Positions, raw: Raw, issue: Issue) -> Problem:
    place: Place = positions.find(raw.number, issue.at, key=issue.key)
    path, message, hint = map(printable, (path_text(issue.at), issue.message, issue.hint))
    return Problem(place, issue.code, path, message, hint)
