"""Orders to loops: what operators give. They are about a whole cluster, and stand in the audit."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Body, HTTPException, Response
from pydantic import BaseModel, ConfigDict, Field

from bai.web.auth.roles import Admin, Operator
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import Cluster, error_responses
from bai.web.response_models import OrderAnswer
from reconciler.gitops.directives import Directive, DirectiveKind, issue_directive, withdraw_directive
from schemas.problems.errors.base import BaiError

router = APIRouter(prefix="/api/v1/clusters/{cluster}", tags=["orders"])
_ANSWERS = error_responses(_404="There is no such cluster or commit.")
_order = partial(router.post, responses=_ANSWERS)
LONGEST_REASON = 500


class Reason(BaseModel):
    """Why, for those who wonder."""

    model_config = ConfigDict(extra="forbid")
    why: str = Field("", max_length=LONGEST_REASON)


_NO_REASON = Reason()


class Named(Reason):
    """A commit, by its name, a branch or a tag."""

    commit: str = Field(min_length=4, max_length=100)


@_order("/suspend", summary="Change nothing for a while")
def suspend(cluster: Cluster, user: Operator, reason: Annotated[Reason, Body()] = _NO_REASON) -> OrderAnswer:
    give_order(cluster, user.name, "suspend", reason.why)
    return OrderAnswer()


@_order("/resume", summary="Neither suspended nor held at a commit")
def resume(cluster: Cluster, user: Operator, reason: Annotated[Reason, Body()] = _NO_REASON) -> OrderAnswer:
    return OrderAnswer(ended=end_orders(cluster, user.name, reason.why))


@_order("/rollback", summary="Hold the cluster at a commit")
def rollback(cluster: Cluster, user: Admin, named: Named) -> OrderAnswer:
    """Any commit of the repository, reviewed or not: this is for admins. `resume` ends it."""
    return _give_for_commit(cluster, user.name, "pin", named)


@_order("/approve", summary="Let a commit be carried out")
def approve(cluster: Cluster, user: Operator, named: Named) -> OrderAnswer:
    """It is carried out if what is followed rests on it; anything else is left aside."""
    return _give_for_commit(cluster, user.name, "approve", named)


@router.post("/reconcile", status_code=202, summary="Look now", response_class=Response, responses=_ANSWERS)
def reconcile(cluster: Cluster, user: Operator) -> Response:
    cluster.wake()
    return Response(status_code=202)


def give_order(
    cluster: ServedCluster, name: str, order: DirectiveKind, why: str = "", commit: str = ""
) -> None:
    """Somebody's order holds from now on, stands in the audit, and whoever leads looks at once. `commit`: its
    full name, of a pin or an approval. Raises StoreError."""
    workspace = cluster.loop.workspace
    directive = Directive(name, workspace.clock.now(), why, commit)
    issue_directive(workspace.store, cluster.name, order, directive)
    cluster.wake()


def end_orders(cluster: ServedCluster, name: str, why: str = "") -> list[Literal["suspend", "pin"]]:
    """Which of these held until now. Raises StoreError."""
    workspace = cluster.loop.workspace
    directive, store = Directive(name, workspace.clock.now(), why), workspace.store
    orders: tuple[Literal["suspend", "pin"], ...] = ("suspend", "pin")
    ended = [order for order in orders if withdraw_directive(store, cluster.name, order, directive)]
    cluster.wake()
    return ended


def _give_for_commit(cluster: Cluster, name: str, order: DirectiveKind, named: Named) -> OrderAnswer:
    try:
        commit = cluster.find_commit(named.commit)
    except BaiError as error:
        raise HTTPException(404, str(error)) from None
    give_order(cluster, name, order, named.why, commit)
    return OrderAnswer(commit=commit)
