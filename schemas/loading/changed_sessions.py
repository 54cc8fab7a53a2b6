"""A repository of which only sessions have changed since it was loaded: what does not rest on these is not
gone through again.

Nothing is told here. Where anything is wrong, warned of, or may count for another document, None is given,
and everything is loaded.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from schemas.files.sources import SourceFile, mentions_api_version
from schemas.kinds.node import Node, NodePool
from schemas.kinds.secret_store import SecretStore
from schemas.kinds.session import Session
from schemas.loading.documents import claimed_identity
from schemas.loading.draft import Surroundings
from schemas.loading.parsed_file import ParsedFile
from schemas.problems.problem import SourceLocation
from schemas.problems.text import printable
from schemas.repository.declared_stores import OwnerStores
from schemas.repository.repository import Repository
from schemas.rules import warning_rules
from schemas.rules.membership import OtherDocuments
from schemas.rules.secret_rules import secret_uses
from schemas.templates.expansion import is_from_template

_Places = dict[str, tuple[Session, SourceLocation]]
"""Identity → the session and where it stands, in the order of a file."""


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """A repository that was loaded, and of what."""

    repository: Repository
    files: Sequence[SourceFile]
    owner: OwnerStores


def with_changed_sessions(
    known: LoadedFiles,
    files: Sequence[SourceFile],
    parse: Callable[[SourceFile], ParsedFile],
    others_of: Callable[[Repository], OtherDocuments],
) -> Repository | None:
    """The repository that loading these files gives, where only sessions in them have changed."""
    changes = _changed_files(known, files)
    if changes is None:
        return None
    gone: dict[str, str] = {}
    new: _Places = {}
    for before, after in changes:
        was = _sessions_alone(parse(before)) if before is not None else {}
        found = _sessions_alone(parse(after)) if mentions_api_version(after.data) else None
        if was is None or found is None or not new.keys().isdisjoint(found):
            return None
        gone |= dict.fromkeys(was, after.path)
        new |= found
    repository = known.repository
    if any(name in repository.resources and name not in gone for name in new):
        return None
    if gone.keys() - new.keys() and _names_any(repository, gone.keys() - new.keys()):
        return None
    made = _with_sessions(repository, gone, new, files)
    if made is None:
        return None
    around = Surroundings.of(made, frozenset(), others_of(made))
    if any(around.issues(session, clear=True) for session, _ in new.values()):
        return None
    return made


def _changed_files(
    known: LoadedFiles, files: Sequence[SourceFile]
) -> list[tuple[SourceFile | None, SourceFile]] | None:
    """Files that are new or have changed, with what they were; None where one is gone, cannot be read, or may
    be no documents."""
    before = {file.path: file for file in known.files}
    after = {file.path: file for file in files}
    if not before.keys() <= after.keys() or not any(mentions_api_version(file.data) for file in known.files):
        return None
    changed = [file for path, file in after.items() if before.get(path) != file]
    elsewhere = _names_of_data(known)
    for file in changed:
        was = before.get(file.path)
        if file.problem is not None or (was is not None and was.problem is not None):
            return None
        if posixpath.basename(file.path) in elsewhere:
            return None
    return [(before.get(file.path), file) for file in changed]


def _names_of_data(known: LoadedFiles) -> frozenset[str]:
    """Names of the files that documents mean by `hardwareFrom`, and as encrypted."""
    stores = [*known.repository.of(SecretStore), *known.owner.stores.values()]
    found = [store.spec.sops.file for store in stores if store.spec.sops is not None]
    machines = (*known.repository.of(Node), *known.repository.of(NodePool))
    found += [one.spec.hardware_from for one in machines if one.spec.hardware_from is not None]
    return frozenset(posixpath.basename(posixpath.normpath(name)) for name in found)


def _sessions_alone(parsed: ParsedFile) -> _Places | None:
    """The sessions of a file that holds nothing else, with which all is right, and which wait for no other,
    need no secret and no template, and are not warned of."""
    if parsed.problems:
        return None
    found: _Places = {}
    for one in parsed.documents:
        if one.raw.value is None and one.raw.sound:
            continue
        if one.kind != "Session" or is_from_template(one.raw.value):
            return None
        session = one.sound_resource()
        if not isinstance(session, Session) or session.identity in found or not _stands_alone(session):
            return None
        if claimed_identity(one.raw.value) != session.identity:
            return None
        found[session.identity] = session, one.raw.place
    return found


def _stands_alone(session: Session) -> bool:
    if session.spec.depends_on or warning_rules.document_warnings(session):
        return False
    return next(iter(secret_uses(session)), None) is None


def _names_any(repository: Repository, names: frozenset[str] | set[str]) -> bool:
    sessions = (*repository.of(Session), *repository.patterns.values())
    return any(not names.isdisjoint(each.spec.depends_on) for each in sessions)


def _with_sessions(
    repository: Repository, gone: Mapping[str, str], new: _Places, files: Sequence[SourceFile]
) -> Repository | None:
    """In the same order as if all had been read; None where names of files cannot be told apart."""
    order = {printable(file.path): number for number, file in enumerate(files)}
    if len(order) != len(files):
        return None
    resources = {name: item for name, item in repository.resources.items() if name not in gone}
    resources |= {name: session for name, (session, _) in new.items()}
    places = [*_without(repository.locations, gone), *((name, place) for name, (_, place) in new.items())]
    if not all(place.file in order for _, place in places):
        return None
    return replace(
        repository,
        resources=dict(sorted(resources.items())),
        locations=dict(sorted(places, key=lambda one: order[one[1].file])),
    )


def _without(
    locations: Mapping[str, SourceLocation], gone: Mapping[str, str]
) -> Iterator[tuple[str, SourceLocation]]:
    return ((name, place) for name, place in locations.items() if name not in gone)
