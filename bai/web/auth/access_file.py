"""The file that says who may do what: `bai serve --access FILE`.

It is read again when it has changed. While what it says is wrong, what it said before holds.
"""

from __future__ import annotations

import ipaddress
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from bai.web.auth.grants import Grant, Grants
from bai.web.auth.networks import Network
from bai.web.auth.oidc import ALGORITHMS, IssuerKeys, OidcAuthenticator, TokenRules
from bai.web.auth.proxy import ProxyAuthenticator
from bai.web.auth.roles import (
    AnonymousAuthenticator,
    Authenticator,
    OidcClient,
    Principal,
    Role,
    RoleBinding,
    StaticAccess,
)
from bai.web.auth.static_tokens import TokenAuthenticator
from schemas.files.regular_files import read_regular_file
from schemas.files.yaml_reader import LARGEST_FILE, read_documents
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from schemas.problems.issues import Issue, issues_error, value_error
from schemas.problems.model_errors import located_problems
from schemas.problems.positions import Positions
from schemas.values.quantities import parse_duration

RoleName = Literal["viewer", "operator", "admin"]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Header = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]*$", max_length=100)]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
assert frozenset(get_args(Algorithm)) == ALGORITHMS
Scope = Annotated[str, StringConstraints(pattern=r"^[!#-\[\]-~]+$", max_length=200)]
"""A `scope-token` (RFC 6749, section 3.3)."""
SHORTEST_SESSION, LONGEST_SESSION = 60, 12 * 3600
"""Seconds for which a browser stays logged in."""


def _issuer(url: str) -> str:
    parts = urlsplit(url)
    here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and here)):
        raise value_error(
            f"{url!r} is no address of a provider", "write https://...; http only for this machine"
        )
    if parts.query or parts.fragment:
        raise value_error(
            f"{url!r} has a query or a fragment", "give it as the provider's tokens have it in `iss`"
        )
    return url


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError as error:
        raise value_error(str(error), "write 10.1.0.0/16, or one address") from None
    return text


def _duration_text(text: str) -> str:
    try:
        parse_duration(text)
    except ValueError as error:
        raise value_error(str(error)) from None
    return text


def _session(text: str) -> str:
    seconds = parse_duration(_duration_text(text))
    if not SHORTEST_SESSION <= seconds <= LONGEST_SESSION:
        raise value_error(f"{text} is not from a minute to 12 hours")
    return text


def _reference(text: str) -> str:
    kind, _, rest = text.partition(":")
    if not rest or not (kind == "env" or (kind == "file" and rest.startswith("/"))):
        raise value_error(
            "this is no reference to a secret", "write env:NAME or file:/path, never the secret"
        )
    return text


def _header_name(text: str) -> str:
    if text.lower() in ("authorization", "host", "cookie"):
        raise value_error(f"{text} is something else", "name the header that the proxy sets")
    return text


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TokenLine(_Model):
    """A token: its SHA-256, never itself."""

    name: Name
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    role: RoleName = "viewer"
    projects: list[Name] | None = None


class GrantLine(_Model):
    """A role for users or members of groups; for everybody who logs in when it names neither."""

    role: RoleName
    users: list[Name] = []
    groups: list[Name] = []
    projects: list[Name] | None = None

    def grant(self) -> Grant:
        projects = None if self.projects is None else frozenset(self.projects)
        return Grant(Role[self.role], frozenset(self.users), frozenset(self.groups), projects)


class ClaimLine(GrantLine):
    """The same, with projects that a claim may list."""

    projectsFrom: Name | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> ClaimLine:
        if self.projects is not None and self.projectsFrom is not None:
            issue = Issue(
                ("projectsFrom",), "projects and projectsFrom do not go together", code="BAI-V034", key=True
            )
            raise issues_error([issue])
        return self

    def grant(self) -> Grant:
        found = super().grant()
        return Grant(found.role, found.users, found.groups, found.projects, self.projectsFrom or "")


class OidcPart(_Model):
    """An identity provider."""

    issuer: Annotated[str, AfterValidator(_issuer)]
    audience: Name | list[Name]
    algorithms: Annotated[list[Algorithm], Field(min_length=1)] = ["RS256", "ES256"]
    leeway: Annotated[str, AfterValidator(_duration_text)] = "60s"
    user: Name = "sub"
    groups: Name = "groups"
    ca: str = ""
    clientId: Name | None = None
    clientSecret: Annotated[str, AfterValidator(_reference)] | None = None
    scopes: Annotated[list[Scope], Field(min_length=1)] | None = None
    session: Annotated[str, AfterValidator(_session)] = "12h"
    grants: Annotated[list[ClaimLine], Field(min_length=1)]

    @model_validator(mode="after")
    def _client_is_audience(self) -> OidcPart:
        audience = [self.audience] if isinstance(self.audience, str) else self.audience
        if self.clientId is not None and self.clientId not in audience:
            why = (
                f"{self.clientId!r} is not in the audience: ID tokens are for the client that asked for them"
            )
            raise issues_error([Issue(("clientId",), why, "add it to audience", code="BAI-V034", key=True)])
        if self.clientId is None and self.clientSecret is not None:
            why = "this is the secret of no client"
            raise issues_error([Issue(("clientSecret",), why, "add clientId", code="BAI-V034", key=True)])
        if self.scopes is not None and "openid" not in self.scopes:
            why = "without openid a provider says nothing of who logs in"
            raise issues_error([Issue(("scopes",), why, "add openid", code="BAI-V034", key=True)])
        return self

    def authenticator(self) -> OidcAuthenticator:
        audience = [self.audience] if isinstance(self.audience, str) else self.audience
        leeway = float(parse_duration(self.leeway))
        algorithms = frozenset[str](self.algorithms)
        reading = TokenRules(self.issuer, audience, algorithms, leeway, self.user, self.groups)
        grants = Grants([line.grant() for line in self.grants])
        return OidcAuthenticator(reading, IssuerKeys(self.issuer, ca=self.ca), grants)

    def client(self) -> OidcClient | None:
        if self.clientId is None:
            return None
        session = float(parse_duration(self.session))
        scopes = tuple(self.scopes or ())
        return OidcClient(self.issuer, self.clientId, self.clientSecret or "", scopes, session)


class ProxyPart(_Model):
    """A proxy that says who it is."""

    networks: Annotated[list[Annotated[str, AfterValidator(_network)]], Field(min_length=1)]
    user: Annotated[Header, AfterValidator(_header_name)] = "X-Forwarded-User"
    groups: Annotated[Header, AfterValidator(_header_name)] = "X-Forwarded-Groups"
    grants: Annotated[list[GrantLine], Field(min_length=1)]

    def authenticator(self) -> ProxyAuthenticator:
        networks: list[Network] = [ipaddress.ip_network(each) for each in self.networks]
        grants = Grants([line.grant() for line in self.grants])
        return ProxyAuthenticator(networks, self.user.lower(), self.groups.lower(), grants)


class AccessFile(_Model):
    """All of it. Ways in are tried in this order."""

    tokens: list[TokenLine] = []
    oidc: list[OidcPart] = []
    proxy: ProxyPart | None = None
    anonymous: RoleName | None = None
    metrics: Literal["viewers", "everybody"] = "viewers"

    def authenticators(self) -> list[Authenticator]:
        authenticators: list[Authenticator] = [
            TokenAuthenticator((line.sha256, _token_principal(line)) for line in self.tokens)
        ]
        authenticators += [part.authenticator() for part in self.oidc]
        authenticators += [self.proxy.authenticator()] if self.proxy else []
        return [*authenticators, AnonymousAuthenticator(Role[self.anonymous] if self.anonymous else None)]

    def oidc_clients(self) -> list[OidcClient]:
        return [client for part in self.oidc if (client := part.client()) is not None]


def _token_principal(line: TokenLine) -> Principal:
    projects = None if line.projects is None else frozenset(line.projects)
    return Principal(line.name, (RoleBinding(Role[line.role], projects),))


def parse_access(data: bytes, file: str) -> AccessFile:
    """Raises InvalidRepository, every mistake at its line."""
    documents, problems = read_documents(data, file)
    if problems:
        raise InvalidRepository(tuple(problems), where=file)
    value = documents[0].value if documents else None
    return validate_access({} if value is None else value, Positions(file, data))


def validate_access(value: object, positions: Positions | None = None) -> AccessFile:
    """Raises InvalidRepository."""
    try:
        return AccessFile.model_validate(value)
    except ValidationError as error:
        places = positions or Positions("access", b"")
        found = located_problems(error, AccessFile, places)
        raise InvalidRepository(found, where=places.file) from None


class WatchedAccessFile:
    """The file, read again when it has changed. Raises CannotRead and InvalidRepository at first; what is
    wrong later goes to `tell`, once."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        self._path, self._tell = path, tell
        self._lock = threading.Lock()
        self._stamp = _file_stamp(path)
        self._fixed = self._read()

    @property
    def authenticators(self) -> Sequence[Authenticator]:
        return self._current().authenticators

    @property
    def open_metrics(self) -> bool:
        return self._current().open_metrics

    @property
    def oidc_clients(self) -> Sequence[OidcClient]:
        return self._current().oidc_clients

    def _current(self) -> StaticAccess:
        with self._lock:
            if (stamp := _file_stamp(self._path)) != self._stamp:
                self._stamp = stamp
                try:
                    self._fixed = self._read()
                    self._tell(f"{self._path} was read again")
                except InvalidRepository as error:
                    problems = "; ".join(map(str, error.problems))
                    self._tell(f"who may do what stays as it was: {problems}")
                except CannotRead as error:
                    self._tell(f"who may do what stays as it was: {error}")
            return self._fixed

    def _read(self) -> StaticAccess:
        try:
            data = read_regular_file(self._path, LARGEST_FILE)
        except OSError as error:
            raise CannotRead(what=str(self._path), why=error.strerror or str(error)) from None
        found = parse_access(data, str(self._path))
        return StaticAccess(found.authenticators(), found.metrics == "everybody", found.oidc_clients())


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    """By which a change is noticed; None while the file cannot be looked at."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
