"""A session's page shares its apps: a form, answered by a page with the link."""

from __future__ import annotations

from typing import Annotated

from fastapi import HTTPException, Path, Request, Response

from bai.web.apps.routes.links import LinkWish, share_app
from bai.web.panel.access.forms import PostedForm
from bai.web.panel.access.visitor import PageViewer, VisitedCluster
from bai.web.panel.pages import Panel
from bai.web.panel.routes.page_route import cluster_frame, page_router

router = page_router()
Part = Annotated[str, Path(max_length=100)]
LIFETIMES = {"1h": 3_600, "8h": 8 * 3_600, "24h": 86_400}
"""Seconds, by what a page offers."""


@router.post("/clusters/{cluster}/sessions/{project}/{name}/apps/{app}/links")
def share(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, form: PostedForm,
    project: Part, name: Part, app: Part,
) -> Response:  # fmt: skip
    seconds = LIFETIMES.get(form.get("for", ""))
    if seconds is None:
        raise HTTPException(422, "say for how long")
    wish = LinkWish.model_validate({"for": seconds})
    link = share_app(request, cluster, visitor.principal, project, name, app, wish)
    panel: Panel = request.app.state.panel
    values = {"project": project, "session": name, "app": app, "link": link}
    answer = panel.respond(
        request, panel.fragment("shared.html", values, cluster.name), cluster_frame(request, cluster, visitor)
    )
    answer.headers["Cache-Control"] = "no-store"
    return answer
