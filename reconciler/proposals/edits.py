"""From the documents that there are to the files that a change makes of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from reconciler.gitops.submit import FileChange
from schemas.files.yaml_edit import (
    FieldEdit,
    FieldValue,
    document_text,
    set_field,
    with_document,
    without_documents,
)
from schemas.files.yaml_layout import UnsupportedLayout
from schemas.files.yaml_reader import read_documents
from schemas.kinds.node import Node
from schemas.kinds.session import Session
from schemas.loading.documents import claimed_identity, kind_of
from schemas.loading.fmt import format_text
from schemas.problems.errors.command import AlreadyThere, CommandError
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.model_errors import fields_at
from schemas.repository.repository import Repository
from schemas.values.names import Name
from schemas.values.resource_ref import identity_of

T = TypeVar("T")
FOLDER = "sessions"
"""Where new sessions are put, by project."""
NodeState = Literal["active", "cordoned", "drained"]
_NAME: TypeAdapter[str] = TypeAdapter(Name)
NEW_FILE = "new session"
"""What problems of a document call its file that has no name yet."""


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of one commit: their files by path, and what they mean."""

    files: Mapping[str, bytes]
    repository: Repository

    def text(self, identity: str) -> str:
        """A document as it is written. Raises CommandError."""
        file, number = self._place(identity)
        return self._attempt(identity, file, lambda data: document_text(data, number))

    def end_session(self, identity: str) -> FileChange:
        """Its document goes. Raises CommandError."""
        session = self.repository.resources.get(identity)
        if isinstance(session, Session) and session.protected:
            hint = 'take `bai/protect: "true"` out of its annotations first'
            raise CommandError(why=f"{identity} is protected against deletion", hint=hint)
        file, number = self._place(identity)
        after = self._attempt(identity, file, lambda data: without_documents(data, {number}))
        return FileChange(file, self.files[file], after)

    def set_priority(self, identity: str, value: int) -> FileChange:
        """Raises CommandError."""
        return self._set_field(identity, Session, "priority", value)

    def set_node_state(self, name: str, state: NodeState) -> FileChange:
        """Raises CommandError."""
        return self._set_field(identity_of("Node", name), Node, "state", state)

    def replace_document(self, identity: str, text: str) -> FileChange:
        """Another document of the same identity in its place. Raises CommandError."""
        file, number = self._place(identity)
        if claimed_identity(parse_one(text)) != identity:
            raise CommandError(why=f"this is no document of {identity}", hint="its kind and names stay")
        after = self._attempt(identity, file, lambda data: with_document(data, number, text))
        return FileChange(file, self.files[file], after)

    def add_session(self, text: str) -> tuple[str, FileChange]:
        """A new session in a file of its own, and its identity. Raises CommandError, InvalidRepository."""
        value = parse_one(text)
        if kind_of(value) != "Session":
            raise CommandError(
                why="this is no Session", hint="begin with `apiVersion: bai/v1`, `kind: Session`"
            )
        metadata = value.get("metadata")
        names = metadata if isinstance(metadata, dict) else {}
        # They become a path: whatever else is wrong, the loader says of the file.
        try:
            project, name = (_NAME.validate_python(names.get(part)) for part in ("project", "name"))
        except ValidationError:
            hint = "write metadata: {name: ..., project: ...} of small letters, digits and hyphens"
            raise CommandError(
                why="the session has no name and project of the usual letters", hint=hint
            ) from None
        identity = identity_of("Session", name, project)
        path = f"{FOLDER}/{project}/{name}.yaml"
        if identity in self.repository.resources or path in self.files:
            raise AlreadyThere(path=identity, hint="choose another name")
        return identity, FileChange(path, None, format_text(text.encode()).encode())

    def _set_field(
        self, identity: str, kind: type[Session] | type[Node], field: str, value: FieldValue
    ) -> FileChange:
        file, number = self._place(identity)
        edit = FieldEdit("spec", field, fields_at(kind, ("spec",)))
        after = self._attempt(identity, file, lambda data: set_field(data, edit, {number: value}))
        return FileChange(file, self.files[file], after)

    def _place(self, identity: str) -> tuple[str, int]:
        """The file, and the number of the document there."""
        place = self.repository.locations.get(identity)
        if place is None and identity in self.repository.machines:
            hint = "give it a document of its own, and name it in the pool's `exclude`"
            raise CommandError(why=f"{identity} is a machine of a NodePool, without a document", hint=hint)
        if place is None or place.file not in self.files:
            raise CommandError(
                why=f"{identity} is not in the documents", hint="it may just have been removed"
            )
        raws, _ = read_documents(self.files[place.file], place.file)
        numbers = {claimed_identity(raw.value): at for at, raw in enumerate(raws)}
        if identity not in numbers:
            maker = claimed_identity(next((raw.value for raw in raws if raw.place == place), None))
            why = f"{identity} has no document of its own: {maker or place.file} makes it"
            raise CommandError(why=why, hint=f"change {maker or place.file} by hand, and commit that")
        return place.file, numbers[identity]

    def _attempt(self, identity: str, file: str, change: Callable[[bytes], T]) -> T:
        try:
            return change(self.files[file])
        except UnsupportedLayout:
            why = f"{file}: what it says of {identity} is written in a way that is not changed by itself"
            raise CommandError(why=why, hint="change it by hand, and commit that") from None


def parse_one(text: str) -> Any:
    """The value of the only document in a text. Raises InvalidRepository, with lines and columns, and
    CommandError where there is not one."""
    raws, problems = read_documents(text.encode(), NEW_FILE)
    if problems:
        raise InvalidRepository(tuple(problems), where=NEW_FILE)
    if len(raws) != 1:
        raise CommandError(why=f"there are {len(raws)} documents", hint="write one")
    return raws[0].value
