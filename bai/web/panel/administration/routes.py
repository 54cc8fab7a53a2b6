"""Addresses of the pages for those who look after a cluster."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from bai.web.panel.access.visitor import PageViewer, VisitedCluster
from bai.web.panel.administration.projects import project_list, project_page
from bai.web.panel.administration.tally import USAGE_DAYS
from bai.web.panel.administration.users import user_list, user_page
from bai.web.panel.routes.page_route import PageNumber, Text, cluster_page, page_router

router = page_router()
Page = Annotated[PageNumber, Query()]


@router.get("/clusters/{cluster}/projects")
def projects(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, q: Text = "", page: Page = 1
) -> Response:
    return cluster_page(
        request, cluster, visitor, "administration/projects.html",
        lambda view: {"list": project_list(view, q, page), "days": USAGE_DAYS}, key=(q, page),
    )  # fmt: skip


@router.get("/clusters/{cluster}/projects/{name}")
def project(request: Request, cluster: VisitedCluster, visitor: PageViewer, name: str) -> Response:
    return cluster_page(
        request, cluster, visitor, "administration/project.html",
        lambda view: {"page": project_page(view, name), "days": USAGE_DAYS}, key=name,
    )  # fmt: skip


@router.get("/clusters/{cluster}/users")
def users(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, q: Text = "", project: Text = "",
    page: Page = 1,
) -> Response:  # fmt: skip
    return cluster_page(
        request, cluster, visitor, "administration/users.html",
        lambda view: {"list": user_list(view, q, project, page), "days": USAGE_DAYS}, key=(q, project, page),
    )  # fmt: skip


@router.get("/clusters/{cluster}/users/{name:path}")
def user(request: Request, cluster: VisitedCluster, visitor: PageViewer, name: str) -> Response:
    return cluster_page(
        request, cluster, visitor, "administration/user.html",
        lambda view: {"page": user_page(view, name), "days": USAGE_DAYS}, key=name,
    )  # fmt: skip
