"""What reading commands print of a cluster, for those who have nothing but a token."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from pydantic import TypeAdapter

from bai.queries import models
from bai.queries.answers import answer
from bai.render.printout import Printout
from bai.web.auth.roles import Overseer, Principal, Viewer
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import NOT_MODIFIED, Cluster, error_responses, project_view
from bai.web.pass_view import PassView
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.plan import PlanError
from schemas.problems.errors.repository import CannotRead, InvalidRepository

router = APIRouter(prefix="/api/v1/clusters/{cluster}/commands", tags=["commands"])
_RESPONSES = {**error_responses(_404="There is no such thing, or a filter means nothing."), **NOT_MODIFIED}
_PRINTOUT = TypeAdapter(Printout)
_STUDIES = (models.ExplainQuery, models.CapacityQuery)
"""What is answered from a plan of everything."""


@router.get("/get", summary="Resources with their phase", response_model=Printout, responses=_RESPONSES)
def get(
    request: Request, cluster: Cluster, user: Viewer, query: Annotated[models.GetQuery, Query()]
) -> Response:
    return _respond(request, cluster, user, query)


@router.get("/status", summary="The cluster on one screen", response_model=Printout, responses=_RESPONSES)
def status(
    request: Request, cluster: Cluster, user: Viewer, query: Annotated[models.StatusQuery, Query()]
) -> Response:
    return _respond(request, cluster, user, query)


@router.get("/describe", summary="All about a resource", response_model=Printout, responses=_RESPONSES)
def describe(
    request: Request, cluster: Cluster, user: Viewer, query: Annotated[models.DescribeQuery, Query()]
) -> Response:
    return _respond(request, cluster, user, query)


@router.get(
    "/explain",
    summary="Why a session is where it is, or waits",
    response_model=Printout,
    responses=_RESPONSES,
)
def explain(
    request: Request, cluster: Cluster, user: Viewer, query: Annotated[models.ExplainQuery, Query()]
) -> Response:
    return _respond(request, cluster, user, query)


@router.get(
    "/capacity", summary="What is free and what still fits", response_model=Printout, responses=_RESPONSES
)
def capacity(
    request: Request, cluster: Cluster, user: Viewer, query: Annotated[models.CapacityQuery, Query()]
) -> Response:
    return _respond(request, cluster, user, query)


@router.get("/nodes", summary="Nodes and what is taken", response_model=Printout, responses=_RESPONSES)
def nodes(
    request: Request, cluster: Cluster, user: Viewer, query: Annotated[models.NodesQuery, Query()]
) -> Response:
    return _respond(request, cluster, user, query)


@router.get("/events", summary="What happened", response_model=Printout, responses=_RESPONSES)
def events(
    request: Request, cluster: Cluster, user: Viewer, query: Annotated[models.EventsQuery, Query()]
) -> Response:
    return _respond(request, cluster, user, query)


@router.get("/audit", summary="Who changed what", response_model=Printout, responses=_RESPONSES)
def audit(
    request: Request, cluster: Cluster, user: Viewer, query: Annotated[models.AuditQuery, Query()]
) -> Response:
    return _respond(request, cluster, user, query)


@router.get("/history", summary="What was applied", response_model=Printout, responses=_RESPONSES)
def history(
    request: Request, cluster: Cluster, user: Overseer, query: Annotated[models.HistoryQuery, Query()]
) -> Response:
    return _respond(request, cluster, user, query)


@router.get("/review", summary="What a commit would change", response_model=Printout, responses=_RESPONSES)
def review(
    request: Request, cluster: Cluster, user: Overseer, query: Annotated[models.ReviewQuery, Query()]
) -> Response:
    return _respond(request, cluster, user, query)


def _respond(request: Request, cluster: ServedCluster, user: Principal, query: models.Query) -> Response:
    view, version = PassView(cluster, user), cluster.version()
    key: Hashable = (user.projects, user.name if getattr(query, "mine", False) else "", type(query), query)
    if isinstance(query, _STUDIES) and cluster.store_cache.peek(key, version) is None:
        # Made before the cache makes the answer, for which everybody else waits.
        _ = view.study

    def make() -> Any:
        found = _PRINTOUT.dump_python(answer(view, query), mode="json")
        return project_view(cluster, user).redact(found)

    try:
        return cluster.store_cache.get(key, version, make).respond(request)
    except (CommandError, CannotRead, InvalidRepository, PlanError) as error:
        raise HTTPException(404, _text(error)) from None


def _text(error: BaiError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
