"""The owner's file that says whose commits are followed; with the keys that it names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from reconciler.sources.owner_files import find_owner_file, read_owner_file
from reconciler.trust.values import TrustPolicy
from schemas.files.yaml_reader import read_documents
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from schemas.problems.issues import Issue, issues_error
from schemas.problems.model_errors import issues_of
from schemas.problems.positions import Positions, path_text
from schemas.problems.problem import Problem
from schemas.problems.text import printable

ENVIRONMENT = "BAI_TRUST"
FILE_NAME = "trust.yaml"
_PUBLIC_KEY_HEADER = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
_PRIVATE_KEY_MARKER = b"PRIVATE KEY"
NonEmptyText = Annotated[str, StringConstraints(min_length=1)]
EmailAddress = Annotated[str, StringConstraints(pattern=r"^[^\s@<>]+@[^\s@<>]+$")]
TeamName = Annotated[str, StringConstraints(pattern=r"^@[\w./-]+$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SignatureRules(_Model):
    """Which commits must be signed, and by whom. Files are named as seen from this one."""

    commits: Literal["each", "tip"] = "each"
    allowedSigners: NonEmptyText | None = None
    revokedKeys: NonEmptyText | None = None
    openpgpKeys: Annotated[list[NonEmptyText], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _require_keys(self) -> SignatureRules:
        if self.allowedSigners is None and self.openpgpKeys is None:
            hint = "name allowedSigners (SSH), openpgpKeys, or both"
            raise issues_error([Issue((), "nobody's signature counts", hint, code="BAI-V034")])
        if self.revokedKeys is not None and self.allowedSigners is None:
            issue = Issue(("revokedKeys",), "goes with allowedSigners", code="BAI-V034", key=True)
            raise issues_error([issue])
        return self


class OwnershipRules(_Model):
    """Paths belong to whom `CODEOWNERS` of the last good commit says; teams of it are these."""

    teams: dict[TeamName, list[EmailAddress]] = {}


class TrustFile(_Model):
    """All of it."""

    signatures: SignatureRules | None = None
    owners: OwnershipRules | None = None

    @model_validator(mode="after")
    def _require_each_commit_signed(self) -> TrustFile:
        if self.owners is not None and self.signatures is not None and self.signatures.commits == "tip":
            hint = "write `commits: each`, or leave `owners` out"
            issue = Issue(("owners",), "who owns paths must sign each commit", hint, "BAI-V034", key=True)
            raise issues_error([issue])
        return self


class TrustSettings:
    """The file at `path`, read anew when it or a file that it names has changed. `folders`: where documents
    are, which none of them may lie in."""

    def __init__(self, path: Path, folders: Sequence[Path]) -> None:
        self.path = path
        self._folders = folders
        self._files: tuple[Path, ...] = ()
        self._trust: TrustPolicy | None = None
        self._stamp: object = None

    def current(self) -> TrustPolicy:
        """What it says now. Raises CannotRead, and InvalidRepository with every mistake."""
        if self._trust is None or self.stamp() != self._stamp:
            self._files = (self.path,)
            self._trust = self._read()
            self._stamp = self.stamp()
        return self._trust

    def stamp(self) -> object:
        """Another one when something has changed."""
        return tuple(_file_stamp(path) for path in self._files)

    def _read(self) -> TrustPolicy:
        file = _parse_trust_file(read_owner_file(self.path, self._folders), printable(str(self.path)))
        teams = None
        if file.owners is not None:
            teams = {name: frozenset(people) for name, people in file.owners.teams.items()}
        signatures = file.signatures
        if signatures is None:
            return TrustPolicy(teams=teams)
        keys = [path for name in signatures.openpgpKeys or () for path in self._key_files(name)]
        return TrustPolicy(
            commits=signatures.commits,
            allowed_signers=self._read_key_file(signatures.allowedSigners),
            revoked_keys=self._read_key_file(signatures.revokedKeys),
            openpgp_keys=tuple(map(self._read_armored_key, keys)),
            teams=teams,
        )

    def _read_key_file(self, name: str | None) -> bytes:
        if name is None:
            return b""
        data = self._read_tracked(self._resolve_path(name))
        if not data.strip():
            raise CannotRead(what=str(self._resolve_path(name)), why="it is empty")
        return data

    def _key_files(self, name: str) -> Iterator[Path]:
        """The file of this name, or all `*.asc` of the folder."""
        path = self._resolve_path(name)
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

    def _read_armored_key(self, path: Path) -> bytes:
        data = self._read_tracked(path)
        if _PUBLIC_KEY_HEADER not in data or _PRIVATE_KEY_MARKER in data:
            hint = "gpg --export --armor ADDRESS"
            raise CannotRead(what=str(path), why="it is no armored public key of OpenPGP", hint=hint)
        return data

    def _read_tracked(self, path: Path) -> bytes:
        self._files += (path,)
        return read_owner_file(path, self._folders)

    def _resolve_path(self, name: str) -> Path:
        return self.path.expanduser().absolute().parent / Path(name).expanduser()


def load_trust_settings(given: Path | None, folders: Sequence[Path]) -> TrustSettings | None:
    """Of the file that is `given`, else in `BAI_TRUST`, else in the user's or the system's folder of
    settings; None without any. Raises CannotRead, InvalidRepository."""
    path = given or find_owner_file(ENVIRONMENT, FILE_NAME)
    if path is None:
        return None
    made = TrustSettings(path, folders)
    made.current()
    return made


def _parse_trust_file(data: bytes, where: str) -> TrustFile:
    documents, problems = read_documents(data, where)
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


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino
