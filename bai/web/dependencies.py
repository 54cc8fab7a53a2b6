"""What requests name: a cluster, and what was seen of it last, as far as it is for who asks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, HTTPException, Path, Request

from bai.web.auth.roles import Somebody
from bai.web.hub import Hub, Watched
from bai.web.project_view import Sight, sight_of
from bai.web.response_models import Refusal
from reconciler.controller.cycle import Pass
from reconciler.values.plan import Plan
from reconciler.values.state import Actual

Answers = dict[int | str, dict[str, Any]]


def refusals(**words: str) -> Answers:
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


SAME: Answers = {304: {"description": "It is what the ETag in If-None-Match stands for."}}
"""Documented of answers that have an ETag."""


async def hub_of(request: Request) -> Hub:
    found: Hub = request.app.state.hub
    return found


async def cluster_of(
    request: Request,
    hub: Annotated[Hub, Depends(hub_of)],
    cluster: Annotated[str, Path(max_length=100, description="Its name.")],
) -> Watched:
    """Answers 404 for a cluster that this server does not look after."""
    if cluster not in hub.clusters:
        raise HTTPException(404, f"this server does not look after a cluster {cluster!r}")
    found = hub.clusters[cluster]
    if not found.loop.leads():
        # Middleware puts it into the answer, whatever that is (`limits.py`).
        request.state.leader = found.loop.leader() or "nobody"
    return found


TheHub = Annotated[Hub, Depends(hub_of)]
Cluster = Annotated[Watched, Depends(cluster_of)]


def seen(cluster: Watched, who: Somebody) -> tuple[Pass, Actual, Plan]:
    """The last pass that came to a plan. Answers 503 before there was one."""
    done = cluster.good
    if done is None or done.actual is None or done.plan is None:
        notes = cluster.latest.notes if cluster.latest and who.projects is None else ()
        raise HTTPException(503, "; ".join(notes) or "nothing was seen yet", headers={"Retry-After": "2"})
    return done, done.actual, done.plan


def sight(cluster: Watched, who: Somebody) -> Sight:
    """What they get to see of it."""
    done = cluster.good or cluster.latest
    existing = done.actual.existing if done is not None and done.actual is not None else ()
    return sight_of(who, done, existing)


def visible(eyes: Sight, identity: str) -> None:
    """Answers 404 for what somebody may not see: whether it is there is none of their business."""
    if not eyes.sees(identity):
        raise HTTPException(404, f"there is no {identity}")
