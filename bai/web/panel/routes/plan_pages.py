"""What the last pass planned, and what a commit would change."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from bai.queries.facts.node_infos import node_infos
from bai.web.dependencies import last_plan
from bai.web.panel.access.visitor import PageOverseer, VisitedCluster
from bai.web.panel.routes.page_route import Values, cluster_page, page_router
from bai.web.panel.views.plan_view import plan_view, review_view
from bai.web.pass_view import PassView

router = page_router()


@router.get("/clusters/{cluster}/plan")
def plan(request: Request, cluster: VisitedCluster, visitor: PageOverseer) -> Response:
    def make(view: PassView) -> Values:
        _, actual, found = last_plan(cluster, visitor.principal)
        return {"plan": plan_view(found, node_infos(view.desired, actual)), "review": None, "commit": ""}

    return cluster_page(request, cluster, visitor, "plan.html", make)


@router.get("/clusters/{cluster}/review")
def review(
    request: Request,
    cluster: VisitedCluster,
    visitor: PageOverseer,
    commit: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Beside what runs: of a commit, branch or tag. Without one, only the form."""

    def make(view: PassView) -> Values:
        if not commit:
            return {"plan": None, "review": None, "commit": ""}
        found = view.review(commit)
        return {"plan": plan_view(found.plan, found.nodes), "review": review_view(found), "commit": commit}

    return cluster_page(request, cluster, visitor, "plan.html", make, key=commit)
