"""Orders about services: back to an earlier generation, and by its document again. For operators of the
service's project; they stand in the audit."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, HTTPException, Path
from pydantic import Field

from bai.queries.services.facts import service_facts
from bai.queries.services.undo import choose_undo
from bai.web.auth.roles import Principal, Role, Viewer, require_role
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import (
    Cluster,
    error_responses,
    error_words,
    last_plan,
    project_view,
    require_visible,
)
from bai.web.pass_view import PassView
from bai.web.response_models import OrderAnswer, UndoAnswer
from bai.web.routes.directives import Reason
from reconciler.gitops.rollout_orders import end_rollout_order, give_rollout_order
from reconciler.values.services.state import RolloutOrder
from schemas.problems.errors.command import CommandError
from schemas.values.resource_ref import identity_of

router = APIRouter(prefix="/api/v1/clusters/{cluster}/services/{project}/{service}", tags=["orders"])
_order = partial(router.post, responses=error_responses(_404="There is no such service or generation."))
_Name = Annotated[str, Path(max_length=100)]
_NO_REASON = Reason()


class UndoWish(Reason):
    """`generation`: one that the service had; left out: the last that was complete before the one that is
    wanted now. Where that is the document's, an order against it ends."""

    generation: str = Field("", pattern="^([0-9a-f]{8})?$")


_ANY = UndoWish()


@_order("/undo", summary="Bring a service back to an earlier generation")
def undo(
    cluster: Cluster, user: Viewer, project: _Name, service: _Name, wish: Annotated[UndoWish, Body()] = _ANY
) -> UndoAnswer:
    """Until its document changes, or `resume`: the document in git says otherwise all the while."""
    identity = _service(cluster, user, project, service)
    try:
        found = choose_undo(service_facts(PassView(cluster, user), identity), wish.generation)
    except CommandError as error:
        raise HTTPException(404, error_words(error)) from None
    workspace = cluster.loop.workspace
    store, now = workspace.store, workspace.clock.now()
    if found.ends_order:
        end_rollout_order(store, cluster.name, identity, actor=user.name, at=now, why=wish.why)
    else:
        order = RolloutOrder(identity, found.generation, found.latest, user.name, now)
        give_rollout_order(store, cluster.name, order, commit=found.commit, why=wish.why)
    cluster.wake()
    return UndoAnswer(
        service=identity,
        generation=found.generation,
        commit=found.commit,
        latest=found.latest,
        latestCommit=found.latest_commit,
    )


@_order("/resume", summary="Have a service go by its document again")
def resume(
    cluster: Cluster,
    user: Viewer,
    project: _Name,
    service: _Name,
    reason: Annotated[Reason, Body()] = _NO_REASON,
) -> OrderAnswer:
    identity = _service(cluster, user, project, service)
    workspace = cluster.loop.workspace
    ended = end_rollout_order(
        workspace.store, cluster.name, identity, actor=user.name, at=workspace.clock.now(), why=reason.why
    )
    cluster.wake()
    return OrderAnswer(ended=["undo"] if ended else [])


def _service(cluster: ServedCluster, user: Principal, project: str, service: str) -> str:
    """The identity of one that is there. Answers 404, also for what they may not see, and 403."""
    identity = identity_of("Service", service, project)
    require_visible(project_view(cluster, user), identity)
    require_role(user, Role.operator, project)
    done, actual, _ = last_plan(cluster, user)
    wanted = done.desired.digests if done.desired is not None else {}
    if identity not in wanted and identity not in actual.existing:
        raise HTTPException(404, f"there is no {identity}")
    return identity
