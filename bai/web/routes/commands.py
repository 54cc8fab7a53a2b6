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
from bai.web.dependencies import NOT_MODIFIED, Cluster, error_responses, error_words
from bai.web.pass_view import PassView
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.plan import PlanError
from schemas.problems.errors.repository import CannotRead, InvalidRepository

router = APIRouter(prefix="/api/v1/clusters/{cluster}/commands", tags=["commands"])
_RESPONSES = {**error_responses(_404="There is no such thing, or a filter means nothing."), **NOT_MODIFIED}
_PRINTOUT = TypeAdapter(Printout)
_STUDIES = (models.ExplainQuery, models.CapacityQuery)
"""What is answered from a plan of everything."""
_OWN = models.AppsQuery
"""Says nothing but what is of one session that its asker sees: its app may be called as others' projects."""


_COMMANDS: tuple[tuple[type[models.Query], object, str], ...] = (
    (models.GetQuery, Viewer, "Resources with their phase"),
    (models.StatusQuery, Viewer, "The cluster on one screen"),
    (models.DescribeQuery, Viewer, "All about a resource"),
    (models.AppsQuery, Viewer, "Where apps of a session are opened"),
    (models.ExplainQuery, Viewer, "Why a session is where it is, or waits"),
    (models.CapacityQuery, Viewer, "What is free and what still fits"),
    (models.NodesQuery, Viewer, "Nodes and what is taken"),
    (models.EventsQuery, Viewer, "What happened"),
    (models.AuditQuery, Viewer, "Who changed what"),
    (models.UsageQuery, Viewer, "Hours that sessions held"),
    (models.EfficiencyQuery, Viewer, "What a session used of what it was given"),
    (models.HistoryQuery, Overseer, "What was applied"),
    (models.ReviewQuery, Overseer, "What a commit would change"),
)
"""What may be asked, by whom, and about what it is."""


def _add_route(kind: type[models.Query], who: object, summary: str) -> None:
    def respond(request: Request, cluster: Cluster, user: Principal, query: models.Query) -> Response:
        return _respond(request, cluster, user, query)

    # FastAPI goes by these: each command has its own query, and asks for its own role.
    respond.__annotations__ |= {"user": who, "query": Annotated[kind, Query()]}
    router.add_api_route(
        f"/{kind.command}", respond, name=kind.command, summary=summary, response_model=Printout,
        responses=_RESPONSES,
    )  # fmt: skip


def _respond(request: Request, cluster: ServedCluster, user: Principal, query: models.Query) -> Response:
    view, version = PassView(cluster, user), cluster.version()
    mine = isinstance(query, models.GetQuery) and query.mine
    key: Hashable = (user.projects, user.name if mine else "", type(query), query)
    if isinstance(query, _STUDIES) and cluster.store_cache.peek(key, version) is None:
        # Made before the cache makes the answer, for which everybody else waits.
        _ = view.study

    def make() -> Any:
        found = _PRINTOUT.dump_python(answer(view, query), mode="json")
        return found if isinstance(query, _OWN) else view.redact(found)

    try:
        return cluster.store_cache.get(key, version, make).respond(request)
    except (CommandError, CannotRead, InvalidRepository, PlanError) as error:
        raise HTTPException(404, error_words(error)) from None


for _command in _COMMANDS:
    _add_route(*_command)
