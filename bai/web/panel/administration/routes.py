"""Addresses of the pages for those who look after a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Query, Request, Response

from bai.web.auth.roles import Role
from bai.web.panel.access.visitor import PageOperator, PageOverseer, PageViewer, VisitedCluster, Visitor
from bai.web.panel.administration.audit import AuditPageQuery, audit_page
from bai.web.panel.administration.groups import group_list, group_page
from bai.web.panel.administration.images import images_page
from bai.web.panel.administration.nodes import NodeListQuery, node_list
from bai.web.panel.administration.notifications import notification_rows
from bai.web.panel.administration.projects import project_list, project_page
from bai.web.panel.administration.storage import StorageQuery, look_at_storage, storage_page
from bai.web.panel.administration.tally import USAGE_DAYS
from bai.web.panel.administration.users import user_list, user_page
from bai.web.panel.administration.waves import waves_page
from bai.web.panel.pages import Panel
from bai.web.panel.routes.page_route import PageNumber, Text, cluster_frame, cluster_page, page_router
from bai.web.pass_view import PassView

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


@router.get("/clusters/{cluster}/groups")
def groups(request: Request, cluster: VisitedCluster, visitor: PageViewer) -> Response:
    return cluster_page(
        request, cluster, visitor, "administration/groups.html",
        lambda view: {"rows": group_list(view), "sees_policy": sees_all(visitor)},
    )  # fmt: skip


@router.get("/clusters/{cluster}/groups/{name}")
def group(request: Request, cluster: VisitedCluster, visitor: PageViewer, name: str) -> Response:
    return cluster_page(
        request, cluster, visitor, "administration/group.html",
        lambda view: {"page": group_page(view, name), "sees_policy": sees_all(visitor)}, key=name,
    )  # fmt: skip


@router.get("/clusters/{cluster}/nodes")
def nodes(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, asked: Annotated[NodeListQuery, Query()]
) -> Response:
    return cluster_page(
        request, cluster, visitor, "administration/nodes.html",
        lambda view: {"list": node_list(view, asked), "shows_waves": sees_all(visitor)}, key=asked,
    )  # fmt: skip


@router.get("/clusters/{cluster}/waves")
def waves(request: Request, cluster: VisitedCluster, visitor: PageOverseer, page: Page = 1) -> Response:
    return cluster_page(
        request, cluster, visitor, "administration/waves.html",
        lambda view: {"page": waves_page(view, page)}, key=page,
    )  # fmt: skip


@router.get("/clusters/{cluster}/storage")
def storage(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, asked: Annotated[StorageQuery, Query()]
) -> Response:
    may_look = visitor.principal.may(Role.operator)
    return cluster_page(
        request, cluster, visitor, "administration/storage.html",
        lambda view: {"page": storage_page(view, asked), "may_look": may_look}, key=(asked, may_look),
    )  # fmt: skip


@router.get("/clusters/{cluster}/storage/look")
def storage_look(
    request: Request, cluster: VisitedCluster, visitor: PageOperator, asked: Annotated[StorageQuery, Query()]
) -> Response:
    """The same with what nodes say now: not kept, and not asked for again when something changes."""
    panel: Panel = request.app.state.panel
    view = PassView(cluster, visitor.principal)
    looked = look_at_storage(cluster.loop.workspace.storage, view.desired)
    values = {"page": storage_page(view, asked, looked), "may_look": True}
    fragment = panel.fragment("administration/storage.html", values, cluster.name)
    return panel.respond(request, fragment, replace(cluster_frame(request, cluster, visitor), live=""))


@router.get("/clusters/{cluster}/images")
def images(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, q: Text = "", page: Page = 1
) -> Response:
    return cluster_page(
        request, cluster, visitor, "administration/images.html",
        lambda view: {"page": images_page(view, q, page)}, key=(q, page),
    )  # fmt: skip


@router.get("/clusters/{cluster}/notifications")
def notifications(request: Request, cluster: VisitedCluster, visitor: PageOverseer) -> Response:
    return cluster_page(
        request, cluster, visitor, "administration/notifications.html",
        lambda view: {"rows": notification_rows(view)},
    )  # fmt: skip


@router.get("/clusters/{cluster}/audit")
def audit(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, asked: Annotated[AuditPageQuery, Query()]
) -> Response:
    return cluster_page(
        request, cluster, visitor, "administration/audit.html",
        lambda view: {"page": audit_page(view, asked)}, key=asked,
    )  # fmt: skip


def sees_all(visitor: Visitor) -> bool:
    """Whether documents that are no project's are for them."""
    return visitor.principal.projects is None
