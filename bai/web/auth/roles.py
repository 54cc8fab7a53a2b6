"""Who asks, and what they may: viewers read, operators give orders to loops, admins everything; each for all
projects or for some.

Read `access_file.py` (what the file says), `tokens.py`, `oidc.py` and `proxy.py` (the ways to say who one
is), `sight.py` (what somebody of some projects gets to see).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Protocol

from fastapi import Depends, HTTPException, Request
from starlette.concurrency import run_in_threadpool

from bai.web.auth.bearer import bearer, is_signed


class Role(IntEnum):
    """Each may what the ones before it may."""

    viewer = 1
    operator = 2
    admin = 3


@dataclass(frozen=True, slots=True)
class Given:
    """A role. `projects` is None for all of them."""

    role: Role
    projects: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Somebody:
    """Who asks."""

    name: str
    given: tuple[Given, ...]

    @property
    def projects(self) -> frozenset[str] | None:
        """Whose resources are theirs to look at; None: everybody's."""
        if self.may(Role.viewer):
            return None
        return frozenset(project for each in self.given for project in each.projects or ())

    def may(self, role: Role) -> bool:
        """Whether they have this role, or a greater one, for all projects."""
        return any(each.role >= role and each.projects is None for each in self.given)


class Door(Protocol):
    """One way to say who one is."""

    def who(self, headers: Mapping[str, str], peer: str) -> Somebody | None:
        """None when a request does not come this way. `headers` with lower-case names; `peer`: the address
        that the connection comes from. Raises PermissionError when it does, wrongly."""
        ...


class Anybody:
    """Where nobody says who they are: a role for all, or none."""

    def __init__(self, role: Role | None) -> None:
        self._role = role

    def who(self, headers: Mapping[str, str], peer: str) -> Somebody | None:
        if self._role is None or "authorization" in headers:
            return None
        return Somebody("anonymous", (Given(self._role),))


class Access(Protocol):
    """All ways in, and what needs none."""

    @property
    def doors(self) -> Sequence[Door]:
        """Asked in their order."""
        ...

    @property
    def open_metrics(self) -> bool:
        """Whether `/metrics` is for everybody."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Ways in that stay as they are."""

    doors: Sequence[Door] = ()
    open_metrics: bool = False


def who(access: Access, headers: Mapping[str, str], peer: str) -> Somebody:
    """Raises PermissionError."""
    for door in access.doors:
        found = door.who(headers, peer)
        if found is not None:
            return found
    raise PermissionError("say who you are: a token, or a login of the identity provider")


async def somebody(request: Request) -> Somebody:
    """Whoever asks. Answers 401 to those who do not say, 403 to those who may nothing."""
    peer = request.client.host if request.client else ""
    headers = {name.lower(): value for name, value in request.headers.items()}
    access: Access = request.app.state.access
    # Only for signed tokens may an identity provider have to be asked: nothing else waits for anybody.
    signed = is_signed(bearer(headers))
    try:
        found = await run_in_threadpool(who, access, headers, peer) if signed else who(access, headers, peer)
    except PermissionError as error:
        raise HTTPException(401, str(error), headers={"WWW-Authenticate": "Bearer"}) from None
    if not found.given:
        raise HTTPException(403, f"{found.name} has no role here")
    return found


def _needs(role: Role, asking: Somebody) -> Somebody:
    if not asking.may(role):
        raise HTTPException(403, f"this needs the role {role.name} for all projects")
    return asking


async def overseer(asking: Annotated[Somebody, Depends(somebody)]) -> Somebody:
    """Whoever may look at everything. Answers 403 otherwise."""
    return _needs(Role.viewer, asking)


async def operator(asking: Annotated[Somebody, Depends(somebody)]) -> Somebody:
    """Whoever may give orders to loops. Answers 403 otherwise."""
    return _needs(Role.operator, asking)


async def admin(asking: Annotated[Somebody, Depends(somebody)]) -> Somebody:
    """Whoever may also choose a commit that nobody reviewed. Answers 403 otherwise."""
    return _needs(Role.admin, asking)


async def scraper(request: Request) -> None:
    """Whoever may read metrics: they tell of all projects together."""
    if not request.app.state.access.open_metrics:
        _needs(Role.viewer, await somebody(request))


Viewer = Annotated[Somebody, Depends(somebody)]
Overseer = Annotated[Somebody, Depends(overseer)]
Operator = Annotated[Somebody, Depends(operator)]
Admin = Annotated[Somebody, Depends(admin)]
