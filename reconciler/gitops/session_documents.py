"""The documents of sessions in a repository's files, and those files with a field changed or without them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from reconciler.gitops.submit import FileChange
from schemas.files.regular_files import open_regular_file, read_descriptor
from schemas.files.yaml_edit import FieldEdit, set_field, without_documents
from schemas.files.yaml_layout import UnsupportedLayout
from schemas.files.yaml_reader import LARGEST_FILE, RawDocument, read_documents
from schemas.kinds.session import Session
from schemas.loading.documents import claimed_identity, kind_of
from schemas.problems.errors.command import CommandError
from schemas.problems.model_errors import fields_at
from schemas.problems.problem import SourceLocation
from schemas.repository.repository import Repository
from schemas.values.resource_ref import ref_of

T = TypeVar("T")
FieldValue = bool | int | None
"""None: the field is not written."""


@dataclass(frozen=True, slots=True)
class SessionDocument:
    """Where a session is written: the file, relative to the repository's folder, and the number of its
    document there, from 0. `from_template`: a template may say what it does not."""

    identity: str
    file: str
    number: int
    from_template: bool


def find_documents(
    directory: Path, repository: Repository, identities: Iterable[str]
) -> tuple[SessionDocument, ...]:
    """Where sessions of `repository`, which was loaded from `directory`, are written. Raises CommandError
    where one has no document of its own."""
    found = []
    for file, those in _by_file(identities, lambda each: repository.locations[each].file).items():
        raws, _ = read_documents(_read(directory, file), file)
        written = {
            claimed_identity(raw.value): (number, raw.value)
            for number, raw in enumerate(raws)
            if kind_of(raw.value) == "Session"
        }
        for identity in those:
            if identity not in written:
                raise _made_by_another(identity, repository.locations[identity], raws)
            number, value = written[identity]
            found.append(SessionDocument(identity, file, number, "from" in (value.get("spec") or {})))
    return tuple(found)


def _made_by_another(identity: str, place: SourceLocation, raws: Sequence[RawDocument]) -> CommandError:
    maker = claimed_identity(next((raw.value for raw in raws if raw.place == place), None))
    if ref_of(maker).kind == "Sweep":
        why = f"{identity} has no document of its own: {maker} makes it, at {place}"
        return CommandError(why=why, hint="change the Sweep there: what its `exclude` names is not made")
    why = f"{identity} does not stand at {place} any more"
    return CommandError(why=why, hint="the file was changed this very moment: try again")


def files_without(directory: Path, documents: Iterable[SessionDocument]) -> tuple[FileChange, ...]:
    """The files once these documents are taken out; a file in which no other one is goes. Raises
    CommandError."""

    def change(data: bytes, those: Sequence[SessionDocument]) -> bytes | None:
        return without_documents(data, {each.number for each in those})

    return _changed_files(directory, documents, change)


def files_with_field(
    directory: Path, documents: Iterable[SessionDocument], field: str, value: FieldValue
) -> tuple[FileChange, ...]:
    """The files once `spec.field` of these documents is `value`. Raises CommandError."""
    edit = FieldEdit("spec", field, fields_at(Session, ("spec",)))

    def change(data: bytes, those: Sequence[SessionDocument]) -> bytes | None:
        # Where it is left out, what a template says counts.
        values = {each.number: False if value is None and each.from_template else value for each in those}
        return set_field(data, edit, values)

    return _changed_files(directory, documents, change)


def _changed_files(
    directory: Path,
    documents: Iterable[SessionDocument],
    change: Callable[[bytes, Sequence[SessionDocument]], bytes | None],
) -> tuple[FileChange, ...]:
    found = []
    for file, those in _by_file(documents, lambda each: each.file).items():
        before = _read(directory, file)
        try:
            found.append(FileChange(file, before, change(before, those)))
        except UnsupportedLayout:
            names = ", ".join(each.identity for each in those)
            why = f"{file}: what it says of {names} is written in a way that no command changes"
            raise CommandError(why=why, hint="change it by hand, and commit that") from None
    return tuple(found)


def _by_file(items: Iterable[T], file_of: Callable[[T], str]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for item in items:
        found.setdefault(file_of(item), []).append(item)
    return dict(sorted(found.items()))


def _read(directory: Path, name: str) -> bytes:
    """Raises CommandError when it has gone, or is another kind of file, since the documents were loaded."""
    try:
        descriptor = open_regular_file(directory / name, follow=False)
    except OSError as error:
        raise CommandError(why=f"{name} cannot be read: {error.strerror}") from None
    try:
        return read_descriptor(descriptor, name, LARGEST_FILE)
    finally:
        os.close(descriptor)
