"""Pages of numbers, and what their scripts ask for."""

from __future__ import annotations

from fastapi import HTTPException, Request, Response

from bai.web.etag_cache import CachedBody, EtagCache
from bai.web.panel.access.visitor import PageViewer, VisitedCluster
from bai.web.panel.numbers.numbers_page import numbers_page, plot_data
from bai.web.panel.numbers.ranges import RangeName
from bai.web.panel.numbers.session_use import measured_use, session_use
from bai.web.panel.numbers.showback import By, showback_csv, showback_page
from bai.web.panel.pages import Panel
from bai.web.panel.routes.page_route import Text, Values, cluster_page, page_router
from bai.web.pass_view import PassView
from bai.web.project_view import ProjectView
from reconciler.values.figures.recorded import MINUTE
from schemas.values.resource_ref import identity_of

router = page_router()
_HERE = "/clusters/{cluster}/numbers"


@router.get(_HERE)
def numbers(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, range: RangeName = "24h", group: Text = ""
) -> Response:
    def make(view: PassView) -> Values:
        return {"page": numbers_page(cluster, view, range, group)}

    return cluster_page(request, cluster, visitor, "numbers/over_time.html", make, key=(range, group))


@router.get(f"{_HERE}/data")
def data(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, range: RangeName = "24h", group: Text = ""
) -> Response:
    """The same for everybody who may look: how full a cluster is is no secret, and no project is named."""
    minute = int(cluster.loop.workspace.clock.now() // MINUTE)
    found = _cache(request, cluster.name).get(
        (range, group), (minute, cluster.pass_count), lambda: plot_data(cluster, range, group)
    )
    return _respond(request, found)


@router.get(f"{_HERE}/showback")
def showback(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, month: Text = "",
    by: By = "project-user",
) -> Response:  # fmt: skip
    def make(view: PassView) -> Values:
        return {"page": showback_page(view, month, by)}

    return cluster_page(request, cluster, visitor, "numbers/showback.html", make, key=(month, by))


@router.get(f"{_HERE}/showback.csv")
def showback_file(
    cluster: VisitedCluster, visitor: PageViewer, month: Text = "", by: By = "project-user"
) -> Response:
    """For a spreadsheet; of the sessions that may be seen."""
    found = showback_csv(PassView(cluster, visitor.principal), month, by)
    headers = {
        "Content-Disposition": f'attachment; filename="{found.name}"', "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }  # fmt: skip
    return Response(found.text.encode(), media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/clusters/{cluster}/sessions/{project}/{name}/use")
def use(request: Request, cluster: VisitedCluster, visitor: PageViewer, project: str, name: str) -> Response:
    """What its containers have used by now; asked while somebody looks."""
    identity, good = identity_of("Session", name, project), cluster.good
    there = good.actual.existing.get(identity) if good is not None and good.actual is not None else None
    if there is None or not ProjectView(visitor.principal).sees(identity):
        raise HTTPException(404, "there is no such session")
    return _respond(request, CachedBody.of(session_use(there, measured_use(cluster))))


def _cache(request: Request, cluster: str) -> EtagCache:
    panel: Panel = request.app.state.panel
    return panel.figures[cluster]


def _respond(request: Request, body: CachedBody) -> Response:
    answer = body.respond(request)
    answer.headers["Vary"] = "Cookie"
    return answer
