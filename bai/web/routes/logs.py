"""What sessions write."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from bai.web.auth.roles import Principal, Viewer
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import Cluster, error_responses, last_plan, project_view, require_visible
from bai.web.streaming import Followers, TooManyFollowers
from providers.required_abilities import require_log_times
from reconciler.values.state import Existing
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.provider import NotAble
from schemas.values.resource_ref import identity_of

router = APIRouter(prefix="/api/v1/clusters/{cluster}", tags=["clusters"])
_FOLLOWERS = Followers()
LATEST = 253_402_300_799
"""Seconds since the epoch: the last that a calendar has."""


class LogQuery(BaseModel, frozen=True):
    """Which part of the output somebody asks for, as the address says it; read by `logs`."""

    kernel: Annotated[str, Query(max_length=50)] = "main1"
    tail: Annotated[int, Query(ge=0, le=100_000)] = 1000
    since: Annotated[
        float | None, Query(ge=0, le=LATEST, description="Seconds since the epoch; in place of `tail`.")
    ] = None
    follow: bool = False


@router.get(
    "/logs/{project}/{session}",
    summary="What a session's container has written",
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Its output."},
        **error_responses(
            _404="There is no such session or container.",
            _409="Its provider cannot tell when it was written.",
            _502="Its node cannot be asked.",
        ),
    },
    response_class=StreamingResponse,
)
def logs(
    request: Request,
    cluster: Cluster,
    user: Viewer,
    project: str,
    session: str,
    query: Annotated[LogQuery, Query()],
) -> StreamingResponse:
    return log_answer(cluster, user, project, session, query)


def log_answer(
    cluster: ServedCluster, user: Principal, project: str, session: str, query: LogQuery
) -> StreamingResponse:
    """What somebody gets of it. Answers 404, 409, 502 and 503."""
    identity = identity_of("Session", session, project)
    require_visible(project_view(cluster, user), identity)
    done, actual, _ = last_plan(cluster, user)
    id_ = kernel_ids(actual.existing.get(identity), recorded=bool(done.by)).get(query.kernel)
    if id_ is None:
        raise HTTPException(404, f"{identity} has no container {query.kernel}")
    try:
        output = _output(cluster.loop.workspace, id_, query)
        pieces = _FOLLOWERS.follow(user.name, output) if query.follow else output
    except NotAble as error:
        raise HTTPException(409, str(error)) from None
    except BaiError as error:
        raise HTTPException(502, str(error)) from None
    except TooManyFollowers:
        raise HTTPException(503, "too many follow already", headers={"Retry-After": "10"}) from None
    return StreamingResponse(pieces, media_type="text/plain; charset=utf-8")


def _output(workspace: Workspace, id_: str, query: LogQuery) -> Iterator[bytes]:
    """Raises ProviderError, NotAble."""
    if query.since is None:
        return workspace.provider.logs(id_, follow=query.follow, tail=query.tail)
    since = datetime.fromtimestamp(query.since, UTC)
    return require_log_times(workspace.provider, workspace.cluster).logs_since(
        id_, since, follow=query.follow
    )


def kernel_ids(there: Existing | None, *, recorded: bool) -> dict[str, str]:
    """By the names of its containers, those that were seen; `recorded`: those of the record, where nobody
    looked."""
    if there is None:
        return {}
    placed = there.recorded.placement
    if recorded and placed is not None:
        names = [part.kernel for part in placed.kernels]
        return dict(zip(names, there.recorded.kernels, strict=False))
    return {kernel.labels.kernel: kernel.id for kernel in there.kernels}
