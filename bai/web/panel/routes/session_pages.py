"""Sessions, and what they write."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from bai.web.auth.roles import Role
from bai.web.panel.access.visitor import PageViewer, VisitedCluster
from bai.web.panel.routes.page_route import Text, Values, cluster_page, page_router
from bai.web.panel.views.logs_page import logs_page
from bai.web.panel.views.session_list import SessionListQuery, session_list
from bai.web.panel.views.session_page import owns_session, session_page
from bai.web.pass_view import PassView
from bai.web.routes.logs import LogQuery, log_answer

router = page_router()
_SESSION = "/clusters/{cluster}/sessions/{project}/{name}"


@router.get("/clusters/{cluster}/sessions")
def sessions(
    request: Request,
    cluster: VisitedCluster,
    visitor: PageViewer,
    asked: Annotated[SessionListQuery, Query()],
) -> Response:
    def make(view: PassView) -> Values:
        return {"list": session_list(view, asked)}

    return cluster_page(request, cluster, visitor, "sessions.html", make, key=asked)


@router.get(_SESSION)
def session(
    request: Request,
    cluster: VisitedCluster,
    visitor: PageViewer,
    project: str,
    name: str,
    explain: bool = False,
) -> Response:
    """`explain`: also how close each node comes."""
    operates = visitor.principal.may(Role.operator, project)
    owns = owns_session(PassView(cluster, visitor.principal), project, name)

    def make(view: PassView) -> Values:
        return {
            "page": session_page(view, project, name, explain=explain),
            "operates": operates,
            "owns": owns,
        }

    if explain:
        # There before the page is made, for which everybody else waits.
        _ = PassView(cluster, visitor.principal).study
    return cluster_page(
        request, cluster, visitor, "session.html", make, key=(project, name, explain, operates, owns)
    )


@router.get(f"{_SESSION}/logs")
def logs(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, project: str, name: str, kernel: Text = ""
) -> Response:
    return cluster_page(
        request, cluster, visitor, "logs.html",
        lambda view: {"page": logs_page(view, project, name, kernel)}, key=(project, name, kernel),
    )  # fmt: skip


@router.get(f"{_SESSION}/log-text")
def log_text(
    cluster: VisitedCluster, visitor: PageViewer, project: str, name: str, query: Annotated[LogQuery, Query()]
) -> Response:
    """As the API gives it: a browser shows it as text, never as a page."""
    return log_answer(cluster, visitor.principal, project, name, query)
