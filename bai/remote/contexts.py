"""The file of contexts: servers, which of their clusters, and who one is there.

`~/.config/bai/contexts.yaml`, or what `BAI_CONTEXTS` names. It holds tokens: nobody but its owner may read
it, and it is replaced whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from bai.remote.addresses import check_address
from schemas.files.atomic_files import write_atomically
from schemas.files.regular_files import read_regular_file
from schemas.files.yaml_reader import read_documents
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from schemas.problems.issues import value_error
from schemas.problems.model_errors import located_problems
from schemas.problems.positions import Positions
from schemas.problems.text import did_you_mean

ENVIRONMENT = "BAI_CONTEXTS"
_LARGEST = 1 << 20
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
NonEmpty = Annotated[str, StringConstraints(min_length=1, max_length=16_384)]


def _address(url: str) -> str:
    try:
        return check_address(url)
    except ValueError as error:
        raise value_error(str(error)) from None


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class OidcLogin(_Model):
    """A login at an identity provider: its token, and what gets the next one."""

    issuer: Annotated[str, AfterValidator(_address)]
    clientId: NonEmpty
    ca: NonEmpty | None = None
    idToken: NonEmpty
    refreshToken: NonEmpty | None = None


class Context(_Model):
    """A cluster of a server. `ca`: a file of certificates to believe in place of the system's."""

    server: Annotated[str, AfterValidator(_address)]
    cluster: NonEmpty | None = None
    ca: NonEmpty | None = None
    token: NonEmpty | None = None
    oidc: OidcLogin | None = None


class Contexts(_Model):
    """All of them, by name; `current` is the one that commands use."""

    current: Name | None = None
    contexts: dict[Name, Context] = {}

    def named(self, name: str) -> Context:
        """Raises CommandError."""
        if name not in self.contexts:
            hint = did_you_mean(name, self.contexts) or "`bai login URL` makes one, `bai context` lists them"
            raise CommandError(why=f"there is no context {name!r}", hint=hint)
        return self.contexts[name]

    def with_context(self, name: str, context: Context) -> Contexts:
        """With one more, or another one, which becomes the current one."""
        return Contexts(current=name, contexts={**self.contexts, name: context})

    def without(self, name: str) -> Contexts:
        """Raises CommandError."""
        self.named(name)
        left = {other: context for other, context in self.contexts.items() if other != name}
        return Contexts(current=None if self.current == name else self.current, contexts=left)


def contexts_path() -> Path:
    if named := os.environ.get(ENVIRONMENT):
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "bai" / "contexts.yaml"


def load_contexts() -> Contexts:
    """Empty where there is no file. Raises CannotRead, InvalidRepository with every mistake."""
    path = contexts_path()
    try:
        data = read_regular_file(path, _LARGEST)
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise CannotRead(what=str(path), why=error.strerror or str(error)) from None
    if stat.S_IMODE(mode) & 0o077:
        raise CannotRead(
            what=str(path), why="others may read it, and it holds tokens", hint=f"chmod 600 {path}"
        )
    return _parse(data, str(path))


def _parse(data: bytes, file: str) -> Contexts:
    documents, problems = read_documents(data, file)
    if problems:
        raise InvalidRepository(tuple(problems), where=file)
    value = documents[0].value if documents else None
    try:
        return Contexts.model_validate({} if value is None else value)
    except ValidationError as error:
        found = located_problems(error, Contexts, Positions(file, data))
        raise InvalidRepository(found, where=file) from None


@contextlib.contextmanager
def locked_contexts() -> Iterator[None]:
    """While somebody reads the file in order to write it: two commands that renew a token at once would
    otherwise use its refresh token twice, which ends the login."""
    path = contexts_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def save_contexts(contexts: Contexts) -> None:
    """Replace the file; while it is locked. Raises OSError."""
    import yaml

    text = yaml.safe_dump(contexts.model_dump(exclude_none=True), sort_keys=False, allow_unicode=True)
    write_atomically(contexts_path(), text, mode=0o600)
