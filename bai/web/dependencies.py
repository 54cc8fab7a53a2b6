"""What requests name: a cluster, and what was seen of it last, as far as it is for who asks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, HTTPException, Path, Request

from bai.web.auth.roles import Principal, Viewer
from bai.web.cluster_loops import ClusterLoops, ServedCluster
from bai.web.project_view import ProjectView, project_view_of
from bai.web.response_models import Refusal
from reconciler.controller.cycle import ReconcileCycle
from reconciler.values.plan import Plan
from reconciler.values.state import Actual
from schemas.problems.errors.base import BaiError

RETRY_AFTER = "2"
"""Seconds after which what cannot be read just now may be asked for again."""
ResponseDocs = dict[int | str, dict[str, Any]]


def error_responses(**words: str) -> ResponseDocs:
    """Documented answers by status, `refusals(_404="There is no such thing.")`, and those of every route."""
    all_ = {
        "_400": "The request cannot be read.",
        "_401": "Nobody, or nobody known, asks.",
        "_403": "This is not for who asks.",
        "_422": "A part of the request is not what it should be.",
        "_413": "The request is too large.",
        "_503": "It cannot be read just now.",
        "_504": "It took too long.",
        **words,
    }
    return {int(status[1:]): {"model": Refusal, "description": text} for status, text in all_.items()}


NOT_MODIFIED: ResponseDocs = {304: {"description": "It is what the ETag in If-None-Match stands for."}}
"""Documented of answers that have an ETag."""


def error_words(error: BaiError) -> str:
    """What is wrong, and what to do about it."""
    return f"{error.message} ({error.hint})" if error.hint else error.message


async def loops_of(request: Request) -> ClusterLoops:
    found: ClusterLoops = request.app.state.loops
    return found


async def served_cluster(
    request: Request,
    loops: Annotated[ClusterLoops, Depends(loops_of)],
    cluster: Annotated[str, Path(max_length=100, description="Its name.")],
) -> ServedCluster:
    """Answers 404 for a cluster that this server does not look after."""
    if cluster not in loops.clusters:
        raise HTTPException(404, f"this server does not look after a cluster {cluster!r}")
    found = loops.clusters[cluster]
    if not found.loop.leads():
        # Middleware puts it into the answer, whatever that is (`request_limits`).
        request.state.leader = found.loop.leader() or "nobody"
    return found


async def clients_cluster(
    _user: Viewer, found: Annotated[ServedCluster, Depends(served_cluster)]
) -> ServedCluster:
    """The same, for those whom the server knows: strangers do not hear whether there is such a cluster."""
    return found


Loops = Annotated[ClusterLoops, Depends(loops_of)]
Cluster = Annotated[ServedCluster, Depends(clients_cluster)]


def last_plan(cluster: ServedCluster, user: Principal) -> tuple[ReconcileCycle, Actual, Plan]:
    """The last pass that came to a plan. Answers 503 before there was one."""
    done = cluster.good
    if done is None or done.actual is None or done.plan is None:
        notes = cluster.latest.notes if cluster.latest and user.projects is None else ()
        why = "; ".join(notes) or "nothing was seen yet"
        raise HTTPException(503, why, headers={"Retry-After": RETRY_AFTER})
    return done, done.actual, done.plan


def project_view(cluster: ServedCluster, user: Principal) -> ProjectView:
    """What they get to see of it."""
    done = cluster.good or cluster.latest
    existing = done.actual.existing if done is not None and done.actual is not None else ()
    return project_view_of(user, done, existing)


def require_visible(view: ProjectView, identity: str) -> None:
    """Answers 404 for what somebody may not see: whether it is there is none of their business."""
    if not view.sees(identity):
        raise HTTPException(404, f"there is no {identity}")
