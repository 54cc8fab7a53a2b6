"""What sessions use now."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException

from bai.queries.facts.kernel_usage import UsageFacts, usage_fact
from bai.web.auth.roles import Viewer
from bai.web.dependencies import Cluster, error_responses, last_plan, project_view
from providers.required_abilities import require_usage
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.provider import NotAble

router = APIRouter(prefix="/api/v1/clusters/{cluster}", tags=["clusters"])


@router.get(
    "/usage",
    summary="What sessions' containers have used by now",
    responses=error_responses(
        _409="Its provider cannot measure.",
        _502="Its nodes cannot be asked.",
    ),
)
def usage(cluster: Cluster, user: Viewer) -> UsageFacts:
    """Of the containers that the last pass saw. However many ask, nodes are asked every two seconds at most,
    and no more than a tenth of the time."""
    view, workspace = project_view(cluster, user), cluster.loop.workspace
    _, actual, _ = last_plan(cluster, user)
    try:
        measured = cluster.usage.measure(require_usage(workspace.provider, workspace.cluster))
    except NotAble as error:
        raise HTTPException(409, str(error)) from None
    except BaiError as error:
        raise HTTPException(502, str(error) if user.projects is None else "nodes cannot be asked") from None
    seen = (
        kernel
        for identity, there in actual.existing.items()
        if there.kernels and view.sees(identity)
        for kernel in there.kernels
    )
    return UsageFacts(
        kernels=[usage_fact(measured[each.id], each.labels) for each in seen if each.id in measured]
    )
