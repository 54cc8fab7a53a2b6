"""The cluster, its nodes and its queue."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from bai.web.panel.access.visitor import PageViewer, VisitedCluster
from bai.web.panel.routes.page_route import PageNumber, Text, Values, cluster_page, page_router
from bai.web.panel.views.cluster_map import cluster_map
from bai.web.panel.views.node_page import node_page
from bai.web.panel.views.queue_page import queue_page
from bai.web.panel.views.standing import standing_of
from bai.web.pass_view import PassView

router = page_router()


@router.get("/clusters/{cluster}")
def cluster(request: Request, cluster: VisitedCluster, visitor: PageViewer) -> Response:
    def make(view: PassView) -> Values:
        return {"map": cluster_map(view), "standing": standing_of(view, cluster)}

    return cluster_page(request, cluster, visitor, "cluster.html", make)


@router.get("/clusters/{cluster}/nodes/{name}")
def node(request: Request, cluster: VisitedCluster, visitor: PageViewer, name: str) -> Response:
    return cluster_page(
        request, cluster, visitor, "node.html", lambda view: {"page": node_page(view, name)}, key=name
    )


@router.get("/clusters/{cluster}/queue")
def queue(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, group: Text = "", project: Text = "",
    page: Annotated[PageNumber, Query()] = 1,
) -> Response:  # fmt: skip
    return cluster_page(
        request, cluster, visitor, "queue.html",
        lambda view: {"queue": queue_page(view, group, project, page)}, key=(group, project, page),
    )  # fmt: skip
