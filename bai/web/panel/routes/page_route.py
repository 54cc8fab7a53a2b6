"""What all pages share: their frame, and how it is said that there is none."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from pydantic import Field

from bai.queries import models
from bai.queries.answers import answer
from bai.render.humanize import iso_time
from bai.render.printout import Printout
from bai.web.cluster_loops import ClusterLoops, ServedCluster
from bai.web.dependencies import RETRY_AFTER, error_words
from bai.web.panel.access.cookies import set_cookie
from bai.web.panel.access.visitor import LoginNeeded, Visitor, current_visitor
from bai.web.panel.blocks import redacted
from bai.web.panel.links import path
from bai.web.panel.navigation import nav_groups
from bai.web.panel.pages import POLICY, Frame, Panel, SimulatedTime
from bai.web.pass_view import PassView
from reconciler.controller.cycle import ReconcileCycle
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.git_remote import NoSuchRevision
from schemas.problems.errors.plan import PlanError
from schemas.problems.errors.repository import CannotRead, InvalidRepository

_TITLES = {
    400: "This cannot be read",
    403: "This is not for you",
    404: "There is no such page",
    409: "This is not as it was",
    422: "This cannot be read",
    503: "Not yet",
}
MOST_NOTES = 5
Values = Mapping[str, Any]
Text = Annotated[str, Query(max_length=300)]
PageNumber = Annotated[int, Field(ge=1, le=100_000)]


class PageRoute(APIRoute):
    """A page that cannot be shown says so as a page; who has to log in is led there, and back."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        show = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await show(request)
            except LoginNeeded as needed:
                return _lead_to_login(request, needed)
            except HTTPException as error:
                return error_page(request, error.status_code, str(error.detail), error.headers)
            except RequestValidationError as error:
                return error_page(request, 422, "; ".join(str(each["msg"]) for each in error.errors()))
            except (CommandError, CannotRead, InvalidRepository, NoSuchRevision, PlanError) as error:
                return error_page(request, 404, error_words(error))
            except BaiError as error:
                return error_page(request, 503, error_words(error), {"Retry-After": RETRY_AFTER})

        return handle


def page_router(*, open_to_all: bool = False) -> APIRouter:
    """Who is not logged in does not learn what there is, either."""
    needed = () if open_to_all else (Depends(current_visitor),)
    return APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=needed)


def _lead_to_login(request: Request, needed: LoginNeeded) -> Response:
    address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    where = path("login", next=address if address != "/" else "", ended=int(needed.stale) or "")
    if request.headers.get("hx-request") == "true":
        answer: Response = Response(status_code=401, headers={"HX-Redirect": where})
    else:
        answer = RedirectResponse(where, 303)
    if needed.stale:
        set_cookie(request, answer, "")
    return answer


def error_page(
    request: Request, status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """What is wrong, in words; `headers` are those that the API has for the same refusal."""
    panel: Panel = request.app.state.panel
    values = {"status": status, "message": _TITLES.get(status, "This went wrong"), "advice": message}
    fragment = panel.fragment("error.html", values)
    answer = panel.respond(request, fragment, Frame(), status)
    answer.headers.update(headers or {})
    return answer


def cluster_page(
    request: Request, cluster: ServedCluster, visitor: Visitor, template: str,
    make: Callable[[PassView], Values], *, key: Hashable = (), policy: str = POLICY,
) -> Response:  # fmt: skip
    """A page about a cluster; `key` has all that its values depend on, but for the cluster, and what somebody
    of these projects sees. `policy`: what it may load and do."""
    panel: Panel = request.app.state.panel
    # What is counted as known is never newer than what is shown.
    frame = cluster_frame(request, cluster, visitor)
    view = PassView(cluster, visitor.principal)
    page = panel.kept_page(
        frame,
        (visitor.principal.projects, template, key),
        cluster.version(),
        lambda: panel.fragment(template, make(view), cluster.name),
    )
    return panel.respond_kept(request, page, frame, policy=policy)


def cluster_frame(request: Request, cluster: ServedCluster, visitor: Visitor) -> Frame:
    loops: ClusterLoops = request.app.state.loops
    panel: Panel = request.app.state.panel
    latest, name, whole = cluster.latest, cluster.name, visitor.principal.projects is None
    page = request.url.path.removeprefix(f"/clusters/{name}").lstrip("/").partition("/")[0]
    nav = nav_groups(name, page, visitor.principal)
    notes = _notes(latest) if latest is not None and whole else ()
    if not cluster.loop.leads():
        notes = (f"This is what another replica saw last: {cluster.loop.leader() or 'nobody'} leads.", *notes)
    return Frame(
        cluster=name,
        clusters=tuple(loops.clusters),
        user=visitor.principal.name,
        role=visitor.role,
        guest=visitor.guest,
        nav=nav,
        live=path("clusters", name, "live", known=panel.news[name].count),
        simulation=_simulated_time(cluster),
        form_token=panel.sealer.form_token(visitor.sealed),
        notes=tuple(notes),
        commit=cluster.loop.workspace.commit,
        last_pass=iso_time(latest.ended) if latest is not None else "",
    )


def _simulated_time(cluster: ServedCluster) -> SimulatedTime | None:
    if cluster.simulation is None:
        return None
    return SimulatedTime(int(1000 * cluster.loop.workspace.clock.now()), cluster.simulation.pace)


def _notes(done: ReconcileCycle) -> tuple[str, ...]:
    """What is new of a pass, but for who waits, which the queue tells."""
    waiting = {wait.session for wait in done.plan.waits} if done.plan is not None else frozenset()
    found = [note for note in done.notes if note.partition(" waits: ")[0] not in waiting]
    more = len(found) - MOST_NOTES
    return (*found[:MOST_NOTES], *((f"and {more} more: `bai status`",) if more > 0 else ()))


def asked(view: PassView, query: models.Query) -> Printout:
    """What a command prints, without what is not theirs. Raises as the command does."""
    return redacted(view, answer(view, query))
