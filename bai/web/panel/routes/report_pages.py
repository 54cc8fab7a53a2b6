"""What reading commands print, as pages."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request, Response

from bai.queries import models
from bai.web.auth.roles import Role
from bai.web.panel.access.visitor import PageViewer, VisitedCluster, Visitor
from bai.web.panel.links import path
from bai.web.panel.routes.page_route import PageNumber, Text, Values, asked, cluster_page, page_router
from bai.web.panel.views.paging import PagedReport
from bai.web.panel.views.resource_kinds import resource_kinds
from bai.web.panel.views.service_list import with_identities
from bai.web.panel.views.service_page import service_page
from bai.web.pass_view import PassView
from schemas.values.resource_ref import ref_of

router = page_router()
Count = Annotated[int, Query(ge=1, le=1000)]


def _report(
    request: Request,
    cluster: VisitedCluster,
    visitor: Visitor,
    query: models.Query,
    title: str,
    **more: object,
) -> Response:
    """`more` for the template: what was asked for."""

    def make(view: PassView) -> Values:
        return {"title": title, "asked": more, "command": query.command, "found": asked(view, query)}

    key = title, query, *more.items()
    return cluster_page(request, cluster, visitor, "report.html", make, key=key)


@router.get("/clusters/{cluster}/resources")
def resources(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, kind: Text = "",
    page: Annotated[PageNumber, Query()] = 1,
) -> Response:  # fmt: skip
    if not kind:
        return cluster_page(
            request, cluster, visitor, "kinds.html", lambda view: {"kinds": resource_kinds(view)}
        )
    query, asked_for = models.GetQuery.of(kind=kind), {"kind": kind}

    def make(view: PassView) -> Values:
        if query.kind in ("Session", "Node"):
            report = PagedReport.of_part(view, query, page, asked_for)
        elif query.kind == "Service":
            report = PagedReport.of(with_identities(asked(view, query)), page, asked_for)
        else:
            report = PagedReport.of(asked(view, query), page, asked_for)
        return {"report": report, "asked": asked_for}

    return cluster_page(request, cluster, visitor, "resources.html", make, key=(query, page))


@router.get("/clusters/{cluster}/resources/{identity:path}")
def resource(request: Request, cluster: VisitedCluster, visitor: PageViewer, identity: str) -> Response:
    query, ref = models.DescribeQuery.of(resource=identity), ref_of(identity)
    if ref.kind == "Service":
        return cluster_page(
            request, cluster, visitor, "service.html",
            lambda view: {"page": service_page(view, ref.project, ref.name)}, key=identity,
        )  # fmt: skip
    files = ""
    if ref.kind == "Volume" and visitor.principal.may(Role.operator, ref.project):
        files = path("clusters", cluster.name, "volumes", *filter(None, (ref.project, ref.name)), "files")
    return _report(request, cluster, visitor, query, identity, files=files)


@router.get("/clusters/{cluster}/events")
def events(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, resource: Text = "", tail: Count = 200
) -> Response:
    query = models.EventsQuery.of(resource=resource, tail=tail)
    return _report(request, cluster, visitor, query, "Events", resource=resource)


@router.get("/clusters/{cluster}/usage")
def usage(
    request: Request, cluster: VisitedCluster, visitor: PageViewer,
    by: Literal["project", "user", "session"] = "project", page: Annotated[PageNumber, Query()] = 1,
) -> Response:  # fmt: skip
    query, asked_for = models.UsageQuery(by=by), {"by": by}

    def make(view: PassView) -> Values:
        report = PagedReport.of(asked(view, query), page, asked_for, ends_with_sum=True)
        return {"report": report, "asked": asked_for}

    return cluster_page(request, cluster, visitor, "usage.html", make, key=(query, page))


@router.get("/clusters/{cluster}/capacity")
def capacity(request: Request, cluster: VisitedCluster, visitor: PageViewer, group: Text = "") -> Response:
    # Worked out before the page is made, for which everybody else waits.
    _ = PassView(cluster, visitor.principal).capacities
    return _report(request, cluster, visitor, models.CapacityQuery.of(group=group), "Capacity", group=group)
