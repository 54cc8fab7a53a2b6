"""Who asks, and what they may: viewers read, operators give orders to loops, admins everything; each for all
projects or for some.

Read `access_file` (what the file says), `static_tokens`, `oidc` and `proxy` (the ways to say who one is), and
`bai.web.project_view` (what somebody of some projects gets to see).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Protocol

from fastapi import Depends, HTTPException, Request
from starlette.concurrency import run_in_threadpool

from bai.web.auth.bearer import bearer, is_signed

ANONYMOUS = "anonymous"
"""The name of whoever does not say who they are."""


class Role(IntEnum):
    """Each may what the ones before it may."""

    viewer = 1
    operator = 2
    admin = 3


@dataclass(frozen=True, slots=True)
class RoleBinding:
    """A role. `projects` is None for all of them."""

    role: Role
    projects: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks."""

    name: str
    bindings: tuple[RoleBinding, ...]

    @property
    def projects(self) -> frozenset[str] | None:
        """Whose resources are theirs to look at; None: everybody's."""
        if self.may(Role.viewer):
            return None
        return frozenset(project for each in self.bindings for project in each.projects or ())

    def may(self, role: Role, project: str = "") -> bool:
        """Whether they have this role, or a greater one: for this project, without one for all of them."""
        fitting = (each for each in self.bindings if each.role >= role)
        return any(each.projects is None or project in each.projects for each in fitting)


class Authenticator(Protocol):
    """One way to say who one is."""

    def authenticate(self, headers: Mapping[str, str], peer: str) -> Principal | None:
        """None when a request does not come this way. `headers` with lower-case names; `peer`: the address
        that the connection comes from. Raises PermissionError when it does, wrongly."""
        ...


class AnonymousAuthenticator:
    """Where nobody says who they are: a role for all, or none."""

    def __init__(self, role: Role | None) -> None:
        self._role = role

    def authenticate(self, headers: Mapping[str, str], peer: str) -> Principal | None:
        if self._role is None or "authorization" in headers:
            return None
        return Principal(ANONYMOUS, (RoleBinding(self._role),))


@dataclass(frozen=True, slots=True)
class OidcClient:
    """As whom people log in at an identity provider. `secret`: a reference (`env:NAME`, `file:/path`), empty
    for a public client. `scopes`: what is asked for; empty for what is usual. `session`: seconds for which a
    browser stays logged in."""

    issuer: str
    client_id: str
    secret: str = ""
    scopes: tuple[str, ...] = ()
    session: float = math.inf


class Access(Protocol):
    """All ways in, and what needs none."""

    @property
    def oidc_clients(self) -> Sequence[OidcClient]:
        """Where people may log in."""
        ...

    @property
    def authenticators(self) -> Sequence[Authenticator]:
        """Asked in their order."""
        ...

    @property
    def open_metrics(self) -> bool:
        """Whether `/metrics` is for everybody."""
        ...


@dataclass(frozen=True, slots=True)
class StaticAccess:
    """Ways in that stay as they are."""

    authenticators: Sequence[Authenticator] = ()
    open_metrics: bool = False
    oidc_clients: Sequence[OidcClient] = ()


def authenticate(access: Access, headers: Mapping[str, str], peer: str) -> Principal:
    """Raises PermissionError."""
    for authenticator in access.authenticators:
        found = authenticator.authenticate(headers, peer)
        if found is not None:
            return found
    raise PermissionError("say who you are: a token, or a login of the identity provider")


async def current_principal(request: Request) -> Principal:
    """Whoever asks. Answers 401 to those who do not say, 403 to those who may nothing."""
    peer = request.client.host if request.client else ""
    headers = {name.lower(): value for name, value in request.headers.items()}
    access: Access = request.app.state.access
    # Only for signed tokens may an identity provider have to be asked: nothing else waits for anybody.
    signed = is_signed(bearer(headers))
    try:
        found = (
            await run_in_threadpool(authenticate, access, headers, peer)
            if signed
            else authenticate(access, headers, peer)
        )
    except PermissionError as error:
        raise HTTPException(401, str(error), headers={"WWW-Authenticate": "Bearer"}) from None
    if not found.bindings:
        raise HTTPException(403, f"{found.name} has no role here")
    return found


def require_role(principal: Principal, role: Role, project: str = "") -> Principal:
    """Answers 403 to who has no such role: for this project, without one for all of them."""
    if not principal.may(role, project):
        where = f"project {project}" if project else "all projects"
        raise HTTPException(403, f"this needs the role {role.name} for {where}")
    return principal


async def overseer(principal: Annotated[Principal, Depends(current_principal)]) -> Principal:
    """Whoever may look at everything. Answers 403 otherwise."""
    return require_role(principal, Role.viewer)


async def operator(principal: Annotated[Principal, Depends(current_principal)]) -> Principal:
    """Whoever may give orders to loops. Answers 403 otherwise."""
    return require_role(principal, Role.operator)


async def admin(principal: Annotated[Principal, Depends(current_principal)]) -> Principal:
    """Whoever may also choose a commit that nobody reviewed. Answers 403 otherwise."""
    return require_role(principal, Role.admin)


async def scraper(request: Request) -> None:
    """Whoever may read metrics: they tell of all projects together."""
    if not request.app.state.access.open_metrics:
        require_role(await current_principal(request), Role.viewer)


Viewer = Annotated[Principal, Depends(current_principal)]
Overseer = Annotated[Principal, Depends(overseer)]
Operator = Annotated[Principal, Depends(operator)]
Admin = Annotated[Principal, Depends(admin)]
