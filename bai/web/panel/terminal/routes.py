"""The page of a session's terminal. Its style sheet is the terminal's own work: that page alone lets scripts
make some."""

from __future__ import annotations

from fastapi import Request, Response

from bai.web.auth.roles import Role, require_role
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import project_view, require_visible
from bai.web.panel.access.visitor import PageViewer, VisitedCluster
from bai.web.panel.pages import POLICY
from bai.web.panel.routes.page_route import Text, Values, cluster_page, page_router
from bai.web.panel.terminal.opening import SESSION_PATH
from bai.web.panel.terminal.socket import route
from bai.web.panel.terminal.terminal_page import terminal_page
from bai.web.pass_view import PassView
from providers.abilities import OpensTerminals
from schemas.values.resource_ref import identity_of

TERMINAL_POLICY = POLICY.replace(
    "style-src 'self'", "style-src 'self'; style-src-elem 'self' 'unsafe-inline'"
)
router = page_router()
router.routes.append(route)


@router.get(SESSION_PATH)
def terminal(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, project: str, name: str, kernel: Text = ""
) -> Response:
    """For operators of the project; others hear no more of a session than on its own page."""
    require_visible(project_view(cluster, visitor.principal), identity_of("Session", name, project))
    require_role(visitor.principal, Role.operator, project)
    obstacle = _obstacle(cluster)

    def make(view: PassView) -> Values:
        return {"page": terminal_page(view, project, name, kernel, obstacle)}

    key = (project, name, kernel, obstacle)
    return cluster_page(request, cluster, visitor, "terminal.html", make, key=key, policy=TERMINAL_POLICY)


def _obstacle(cluster: ServedCluster) -> str:
    if not cluster.loop.leads():
        leader = cluster.loop.leader() or "nobody"
        return f"This replica stands by: terminals are opened where the loop runs, at {leader}."
    provider = cluster.loop.workspace.provider
    if not isinstance(provider, OpensTerminals):
        return f"The provider {provider.capabilities().name} opens no terminals."
    return ""
