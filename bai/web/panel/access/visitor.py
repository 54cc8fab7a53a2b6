"""Who looks at a page: asked anew with each request, so that roles are those of now, and a token that is
taken back ends at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, HTTPException
from fastapi.requests import HTTPConnection
from starlette.concurrency import run_in_threadpool

from bai.web.auth.bearer import is_signed
from bai.web.auth.roles import ANONYMOUS, Access, Principal, Role, authenticate, require_role
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import served_cluster
from bai.web.panel.access.cookies import CookieSealer, read_cookie
from bai.web.panel.access.kept_identity import kept_identity, principal_of


class LoginNeeded(Exception):
    """Nobody, or nobody known, looks. `stale`: whoever it was has a cookie that counts no more."""

    def __init__(self, *, stale: bool) -> None:
        super().__init__("a login is needed")
        self.stale = stale


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks. `sealed`: their cookie, empty for whom a proxy names and for everybody (`anonymous`)."""

    principal: Principal
    sealed: str = ""

    @property
    def guest(self) -> bool:
        """Whether they are one of everybody (`anonymous`)."""
        return not self.sealed and self.principal.name == ANONYMOUS

    @property
    def role(self) -> str:
        """The greatest, and for which projects."""
        everywhere = [each.role for each in self.principal.bindings if each.projects is None]
        if everywhere:
            return max(everywhere).name
        greatest = max(each.role for each in self.principal.bindings)
        projects = {name for each in self.principal.bindings for name in each.projects or ()}
        return f"{greatest.name} of {', '.join(sorted(projects)) or 'no project'}"


async def find_principal(access: Access, request: HTTPConnection, token: str) -> Principal:
    """Whose token it is; without one, whom the connection or a proxy says. Raises PermissionError."""
    peer = request.client.host if request.client else ""
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers.pop("authorization", None)
    if token:
        headers["authorization"] = f"Bearer {token}"
    if is_signed(token):
        return await run_in_threadpool(authenticate, access, headers, peer)
    return authenticate(access, headers, peer)


async def current_visitor(request: HTTPConnection) -> Visitor:
    """Raises LoginNeeded; answers 403 to those who may nothing."""
    sealed = read_cookie(request)
    try:
        principal = await _principal_of_cookie(request, sealed)
    except PermissionError:
        raise LoginNeeded(stale=bool(sealed)) from None
    if not principal.bindings:
        raise HTTPException(403, f"{principal.name} has no role here")
    return Visitor(principal, sealed)


async def _principal_of_cookie(request: HTTPConnection, sealed: str) -> Principal:
    """Raises PermissionError."""
    access: Access = request.app.state.access
    sealer: CookieSealer = request.app.state.panel.sealer
    token = sealer.open(sealed) if sealed else ""
    if sealed and not token:
        return principal_of(access, kept_identity(sealer, sealed))
    return await find_principal(access, request, token)


async def overseer(visitor: Annotated[Visitor, Depends(current_visitor)]) -> Visitor:
    """Whoever may look at everything. Answers 403 otherwise."""
    if not visitor.principal.may(Role.viewer):
        raise HTTPException(403, "this page is for those who may see all projects")
    return visitor


async def operator(visitor: Annotated[Visitor, Depends(current_visitor)]) -> Visitor:
    """Whoever may give orders to loops. Answers 403 otherwise."""
    require_role(visitor.principal, Role.operator)
    return visitor


async def admin(visitor: Annotated[Visitor, Depends(current_visitor)]) -> Visitor:
    """Whoever may also choose a commit that nobody reviewed. Answers 403 otherwise."""
    require_role(visitor.principal, Role.admin)
    return visitor


PageViewer = Annotated[Visitor, Depends(current_visitor)]
PageOverseer = Annotated[Visitor, Depends(overseer)]
PageOperator = Annotated[Visitor, Depends(operator)]
PageAdmin = Annotated[Visitor, Depends(admin)]


async def visited_cluster(
    _visitor: PageViewer, found: Annotated[ServedCluster, Depends(served_cluster)]
) -> ServedCluster:
    """The cluster of a page, for those whom the server knows: strangers do not hear whether there is one."""
    return found


VisitedCluster = Annotated[ServedCluster, Depends(visited_cluster)]
