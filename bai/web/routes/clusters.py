"""Clusters, their resources, plans, queues and events: what viewers read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response

from bai.render.humanize import moment
from bai.render.plan.sections import wait_lines
from bai.render.resources.events import event_json
from bai.render.resources.status import other_rows, session_json, session_rows
from bai.web.auth.roles import Overseer, Somebody, Viewer
from bai.web.dependencies import SAME, Cluster, TheHub, refusals, seen, sight, visible
from bai.web.etag_cache import Body
from bai.web.hub import Watched
from bai.web.response_models import ClusterAnswer, EventAnswer, ReasonAnswer, WaitAnswer
from planner.model.types import Wait
from reconciler.gitops.directives import orders
from schemas.problems.errors import BaiError

router = APIRouter(prefix="/api/v1/clusters", tags=["clusters"])
Kind = Annotated[str, Query(max_length=50, description="Only of this kind, `Session`.")]
Project = Annotated[str, Query(max_length=100, description="Only of this project.")]
_PLAIN = {**refusals(), **SAME}
_NOT_FOUND = {**refusals(_404="There is no such thing."), **SAME}
_UNKEPT = refusals(_404="There is no such thing.")


@router.get(
    "",
    summary="The clusters that this server looks after",
    response_model=list[ClusterAnswer],
    responses=_PLAIN,
)
def clusters(request: Request, hub: TheHub, who: Viewer) -> Response:
    return Body.of([_cluster(each, who) for each in hub.clusters.values()]).answer(request)


@router.get(
    "/{cluster}",
    summary="One cluster: where it stands",
    response_model=ClusterAnswer,
    responses=_NOT_FOUND,
)
def one(request: Request, cluster: Cluster, who: Viewer) -> Response:
    asked = ("cluster", who.projects is None)
    return cluster.read.body(asked, cluster.version(), lambda: _cluster(cluster, who)).answer(request)


def _cluster(cluster: Watched, who: Somebody) -> ClusterAnswer:
    workspace, latest = cluster.loop.workspace, cluster.latest
    told = orders(workspace.store, cluster.name)
    return ClusterAnswer(
        name=cluster.name,
        provider=workspace.cluster.spec.provider,
        commit=workspace.commit,
        pinned=told.pin.commit if told.pin else "",
        suspended=told.suspend is not None,
        approved=told.approve.commit if told.approve else "",
        leads=cluster.loop.leads(),
        leader=cluster.loop.leader(),
        lastPass=moment(latest.ended) if latest else "",
        good=bool(latest and latest.good),
        notes=list(latest.notes) if latest and who.projects is None else [],
    )


@router.get(
    "/{cluster}/resources",
    summary="What is wanted and what is there",
    response_model=list[dict[str, Any]],
    responses=_NOT_FOUND,
)
async def resources(
    request: Request, cluster: Cluster, who: Viewer, kind: Kind = "", project: Project = ""
) -> Response:
    asked = ("resources", who.projects, kind, project)
    return await cluster.kept.answer(
        request, asked, cluster.number, lambda: _listed(cluster, who, kind, project)
    )


def _listed(cluster: Watched, who: Somebody, kind: str, project: str) -> list[dict[str, Any]]:
    eyes = sight(cluster, who)
    found = [eyes.clear(each) for each in _resources(cluster, who) if eyes.lists(str(each["id"]))]
    if kind:
        found = [each for each in found if each["kind"] == kind]
    if project:
        found = [each for each in found if str(each["id"]).split("/")[1:-1] == [project]]
    return found


@router.get(
    "/{cluster}/resources/{identity:path}",
    summary="One resource",
    response_model=dict[str, Any],
    responses=_NOT_FOUND,
)
async def resource(request: Request, cluster: Cluster, who: Viewer, identity: str) -> Response:
    asked = ("resource", who.projects, identity)
    return await cluster.kept.answer(request, asked, cluster.number, lambda: _one(cluster, who, identity))


def _one(cluster: Watched, who: Somebody, identity: str) -> dict[str, Any]:
    eyes = sight(cluster, who)
    visible(eyes, identity)
    done, actual, _ = seen(cluster, who)
    found = next((each for each in _resources(cluster, who) if each["id"] == identity), None)
    if found is None:
        raise HTTPException(404, f"there is no {identity}")
    document = done.workspace.desired().documents.get(identity)
    if document is None and identity in actual.existing:
        document = actual.existing[identity].recorded.document
    return {**eyes.clear(found), "document": document}


def _resources(cluster: Watched, who: Somebody) -> Iterator[dict[str, Any]]:
    done, actual, plan = seen(cluster, who)
    wanted = done.workspace.desired().digests
    waits = {wait.session: wait for wait in plan.waits}
    for row in session_rows(actual, wanted, time.time()):
        yield session_json(row, actual.existing.get(row.id), waits.get(row.id))
    for identity, state, generation in other_rows(actual, wanted, ""):
        kind = identity.partition("/")[0]
        yield {"id": identity, "kind": kind, "state": state, "generation": int(generation or 0)}


@router.get(
    "/{cluster}/queue",
    summary="Who waits, and why",
    response_model=list[WaitAnswer],
    responses=_NOT_FOUND,
)
async def queue(request: Request, cluster: Cluster, who: Viewer) -> Response:
    asked = ("queue", who.projects)
    return await cluster.kept.answer(request, asked, cluster.number, lambda: _queue(cluster, who))


def _queue(cluster: Watched, who: Somebody) -> list[WaitAnswer]:
    eyes = sight(cluster, who)
    _, _, plan = seen(cluster, who)
    found = [_wait(wait) for wait in plan.waits if eyes.sees(wait.session)]
    return [WaitAnswer.model_validate(eyes.clear(each.model_dump())) for each in found]


def _wait(wait: Wait) -> WaitAnswer:
    return WaitAnswer(
        session=wait.session,
        group=wait.group,
        position=wait.position,
        reasons=[ReasonAnswer(code=reason.code, message=reason.message) for reason in wait.reasons],
        freedBy=wait.freed_by,
        latest=moment(wait.latest) if wait.latest is not None else "",
        lines=wait_lines(wait),
    )


@router.get(
    "/{cluster}/plan",
    summary="What the loop's last pass planned",
    response_model=dict[str, Any],
    responses=_NOT_FOUND,
)
async def plan(request: Request, cluster: Cluster, who: Overseer) -> Response:
    return await cluster.kept.answer(request, "plan", cluster.number, lambda: _plan(cluster, who))


def _plan(cluster: Watched, who: Somebody) -> dict[str, Any]:
    from reconciler.values.plan_json import VERSION, plain

    _, _, found = seen(cluster, who)
    return {"version": VERSION, "plan": plain(found)}


@router.get("/{cluster}/review", summary="What a commit would change", responses=_UNKEPT)
def review(
    cluster: Cluster,
    who: Overseer,
    commit: Annotated[str, Query(min_length=4, max_length=100, description="Or a branch or tag.")],
) -> dict[str, Any]:
    from reconciler.review.between_commits import review_of
    from reconciler.review.review_json import value

    try:
        return value(review_of(cluster.loop.workspace, commit))
    except BaiError as error:
        raise HTTPException(404, str(error)) from None


@router.get(
    "/{cluster}/events",
    summary="What happened",
    response_model=list[EventAnswer],
    responses=_NOT_FOUND,
)
def events(
    request: Request,
    cluster: Cluster,
    who: Viewer,
    after: Annotated[int, Query(ge=0, le=2**62, description="Only later ones than this `seq`.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    resource: Annotated[str, Query(max_length=300)] = "",
) -> Response:
    """The newest, oldest first. `limit` counts also what is not for who asks."""

    def make() -> list[object]:
        eyes = sight(cluster, who)
        store = cluster.loop.workspace.store
        found = store.events(cluster.name, resource=resource or None, after=after, limit=limit)
        return [eyes.clear(event_json(event)) for event in found if eyes.sees(event.resource)]

    asked = ("events", who.projects, after, limit, resource)
    return cluster.read.body(asked, cluster.version(), make).answer(request)
