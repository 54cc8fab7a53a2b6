"""The owner's file that says whose commits are followed; with the keys that it names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from reconciler.sources.owner_files import found, read_own
from reconciler.trust.values import Trust
from schemas.files.reading import read
from schemas.problems.errors import CannotRead, InvalidRepository, Problem
from schemas.problems.issues import Issue, refuse
from schemas.problems.model_errors import issues_of
from schemas.problems.positions import Positions, path_text
from schemas.problems.text import printable

ENVIRONMENT = "BAI_TRUST"
NAME = "trust.yaml"
_ARMOR = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
_PRIVATE = b"PRIVATE KEY"
Words = Annotated[str, StringConstraints(min_length=1)]
Mail = Annotated[str, StringConstraints(pattern=r"^[^\s@<>]+@[^\s@<>]+$")]
Team = Annotated[str, StringConstraints(pattern=r"^@[\w./-]+$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Signatures(_Model):
    """Which commits must be signed, and by whom. Files are named as seen from this one."""

    commits: Literal["each", "tip"] = "each"
    allowedSigners: Words | None = None
    revokedKeys: Words | None = None
    openpgpKeys: Annotated[list[Words], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _somebody(self) -> Signatures:
        if self.allowedSigners is None and self.openpgpKeys is None:
            hint = "name allowedSigners (SSH), openpgpKeys, or both"
            raise refuse([Issue((), "nobody's signature counts", hint, code="BAI-V034")])
        if self.revokedKeys is not None and self.allowedSigners is None:
            issue = Issue(("revokedKeys",), "goes with allowedSigners", code="BAI-V034", key=True)
            raise refuse([issue])
        return self


class Ownership(_Model):
    """Paths belong to whom `CODEOWNERS` of the last good commit says; teams of it are these."""

    teams: dict[Team, list[Mail]] = {}


class TrustFile(_Model):
    """All of it."""

    signatures: Signatures | None = None
    owners: Ownership | None = None

    @model_validator(mode="after")
    def _owners_of_each(self) -> TrustFile:
        if self.owners is not None and self.signatures is not None and self.signatures.commits == "tip":
            hint = "write `commits: each`, or leave `owners` out"
            issue = Issue(("owners",), "who owns paths must sign each commit", hint, "BAI-V034", key=True)
            raise refuse([issue])
        return self


class Settings:
    """The file at `path`, read anew when it or a file that it names has changed. `folders`: where documents
    are, which none of them may lie in."""

    def __init__(self, path: Path, folders: Sequence[Path]) -> None:
        self.path = path
        self._folders = folders
        self._files: tuple[Path, ...] = ()
        self._trust: Trust | None = None
        self._stamp: object = None

    def current(self) -> Trust:
        """What it says now. Raises CannotRead, and InvalidRepository with every mistake."""
        if self._trust is None or self.stamp() != self._stamp:
            self._files = (self.path,)
            self._trust = self._read()
            self._stamp = self.stamp()
        return self._trust

    def stamp(self) -> object:
        """Another one when something has changed."""
        return tuple(_stamp(path) for path in self._files)

    def _read(self) -> Trust:
        file = _parsed(read_own(self.path, self._folders), printable(str(self.path)))
        teams = None
        if file.owners is not None:
            teams = {name: frozenset(people) for name, people in file.owners.teams.items()}
        signatures = file.signatures
        if signatures is None:
            return Trust(teams=teams)
        keys = [path for name in signatures.openpgpKeys or () for path in self._listed(name)]
        return Trust(
            commits=signatures.commits,
            allowed_signers=self._named(signatures.allowedSigners),
            revoked_keys=self._named(signatures.revokedKeys),
            openpgp_keys=tuple(map(self._armored, keys)),
            teams=teams,
        )

    def _named(self, name: str | None) -> bytes:
        if name is None:
            return b""
        data = self._own(self._place(name))
        if not data.strip():
            raise CannotRead(what=str(self._place(name)), why="it is empty")
        return data

    def _listed(self, name: str) -> Iterator[Path]:
        """The file of this name, or all `*.asc` of the folder."""
        path = self._place(name)
        if not path.is_dir():
            yield path
            return
        self._files += (path,)
        if path.stat().st_mode & stat.S_IWOTH:
            raise CannotRead(what=str(path), why="everybody may write to it: chmod o-w")
        files = sorted(path.glob("*.asc"))
        if not files:
            raise CannotRead(what=str(path), why="it holds no key", hint="name the keys' files *.asc")
        yield from files

    def _armored(self, path: Path) -> bytes:
        data = self._own(path)
        if _ARMOR not in data or _PRIVATE in data:
            hint = "gpg --export --armor ADDRESS"
            raise CannotRead(what=str(path), why="it is no armored public key of OpenPGP", hint=hint)
        return data

    def _own(self, path: Path) -> bytes:
        self._files += (path,)
        return read_own(path, self._folders)

    def _place(self, name: str) -> Path:
        return self.path.expanduser().absolute().parent / Path(name).expanduser()


def settings(given: Path | None, folders: Sequence[Path]) -> Settings | None:
    """Of the file that is `given`, else in `BAI_TRUST`, else in the user's or the system's folder of
    settings; None without any. Raises CannotRead, InvalidRepository."""
    path = given or found(ENVIRONMENT, NAME)
    if path is None:
        return None
    made = Settings(path, folders)
    made.current()
    return made


def _parsed(data: bytes, where: str) -> TrustFile:
    documents, problems = read(data, where)
    if problems:
        raise InvalidRepository(tuple(problems), where=where)
    positions = Positions(where, data)
    try:
        return TrustFile.model_validate(documents[0].value if documents else {})
    except ValidationError as error:
        issues = issues_of(error, TrustFile)
        raise InvalidRepository(
            tuple(sorted(_problem(positions, issue) for issue in issues)), where=where
        ) from None


def _problem(positions: Positions, issue: Issue) -> Problem:
    path, message, hint = map(printable, (path_text(issue.at), issue.message, issue.hint))
    return Problem(positions.find(0, issue.at, key=issue.key), issue.code, path, message, hint)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino
