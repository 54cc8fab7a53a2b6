"""The owner's file: secret stores that open the machine that runs bai, and which no document can declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reconciler.sources.owner_files import find_owner_file, read_owner_file
from schemas.files.yaml_reader import RawDocument, read_documents
from schemas.kinds.secret_store import SecretStore
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.issues import Issue
from schemas.problems.positions import Positions, path_text
from schemas.problems.problem import Problem, SourceLocation
from schemas.problems.text import printable
from schemas.repository.declared_stores import OwnerStores

ENVIRONMENT = "BAI_SECRET_STORES"
NAME = "secret-stores.yaml"


def load_owner_stores(given: Path | None, folders: Sequence[Path], *, final: bool = False) -> OwnerStores:
    """What the owner declares in the file that is `given`, else in `BAI_SECRET_STORES`, else in the user's or
    the system's folder of settings; nothing without any. `folders`: where documents are, which the file must
    not lie in. `final`: stores that are declared nowhere are a mistake also without a file.

    Raises CannotRead, and InvalidRepository with every problem.
    """
    path = given or find_owner_file(ENVIRONMENT, NAME)
    if path is None:
        return OwnerStores({}, final)
    return OwnerStores(_read_stores(path, folders), True)


def _read_stores(path: Path, folders: Sequence[Path]) -> Mapping[str, SecretStore]:
    data, where = read_owner_file(path, folders), printable(str(path))
    raws, problems = read_documents(data, where)
    positions = Positions(where, data)
    stores: dict[str, SecretStore] = {}
    for raw in raws:
        problems += [_problem(positions, raw, issue) for issue in _issues(raw, stores)]
    if problems:
        raise InvalidRepository(tuple(problems), where=where)
    return stores


def _issues(raw: RawDocument, stores: dict[str, SecretStore]) -> Iterator[Issue]:
    """What is wrong with one document; a sound one is added to `stores`."""
    # All kinds and their rules, which only who has such a file needs.
    from schemas.loading.documents import parse_resource
    from schemas.rules.document_rules import check_document

    if raw.value is None or not raw.sound:
        return
    resource, issues = parse_resource(raw.value)
    yield from issues
    if resource is None:
        return
    if not isinstance(resource, SecretStore):
        yield Issue(("kind",), "the owner's file holds secret stores only", code="BAI-V016")
        return
    yield from check_document(resource)
    if resource.name in stores:
        yield Issue(("metadata", "name"), f"the store '{resource.name}' stands twice", code="BAI-V042")
    stores[resource.name] = resource


def _problem(positions: Positions, raw: RawDocument, issue: Issue) -> Problem:
    place: SourceLocation = positions.find(raw.number, issue.at, key=issue.key)
    path, message, hint = map(printable, (path_text(issue.at), issue.message, issue.hint))
    return Problem(place, issue.code, path, message, hint)
