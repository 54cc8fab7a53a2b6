"""Clusters, their resources, plans, queues and events: what viewers read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response

from bai.queries.facts.apps import apps_of
from bai.queries.services.facts import service_facts
from bai.render.humanize import iso_time
from bai.render.plan.waits import wait_lines
from bai.render.resources.events import event_json
from bai.render.resources.services import service_json
from bai.render.resources.status import resource_rows, session_json, session_rows
from bai.web.auth.roles import Overseer, Principal, Viewer
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import (
    NOT_MODIFIED,
    Cluster,
    Loops,
    error_responses,
    last_plan,
    project_view,
    require_visible,
)
from bai.web.etag_cache import CachedBody
from bai.web.pass_view import PassView
from bai.web.response_models import ClusterAnswer, EventAnswer, ReasonAnswer, WaitAnswer
from planner.model.types import Wait
from reconciler.gitops.directives import read_directives
from schemas.problems.errors.base import BaiError
from schemas.values.resource_ref import ref_of

router = APIRouter(prefix="/api/v1/clusters", tags=["clusters"])
Kind = Annotated[str, Query(max_length=50, description="Only of this kind, `Session`.")]
Project = Annotated[str, Query(max_length=100, description="Only of this project.")]
_CACHED = {**error_responses(), **NOT_MODIFIED}
_CACHED_OR_NOT_FOUND = {**error_responses(_404="There is no such thing."), **NOT_MODIFIED}
_NOT_FOUND = error_responses(_404="There is no such thing.")


@router.get(
    "",
    summary="The clusters that this server looks after",
    response_model=list[ClusterAnswer],
    responses=_CACHED,
)
def clusters(request: Request, loops: Loops, user: Viewer) -> Response:
    return CachedBody.of([_cluster_answer(each, user) for each in loops.clusters.values()]).respond(request)


@router.get(
    "/{cluster}",
    summary="One cluster: where it stands",
    response_model=ClusterAnswer,
    responses=_CACHED_OR_NOT_FOUND,
)
def one(request: Request, cluster: Cluster, user: Viewer) -> Response:
    key = ("cluster", user.projects is None)
    return cluster.store_cache.get(key, cluster.version(), lambda: _cluster_answer(cluster, user)).respond(
        request
    )


def _cluster_answer(cluster: ServedCluster, user: Principal) -> ClusterAnswer:
    workspace, latest = cluster.loop.workspace, cluster.latest
    directives = read_directives(workspace.store, cluster.name)
    return ClusterAnswer(
        name=cluster.name,
        provider=workspace.cluster.spec.provider,
        commit=workspace.commit,
        pinned=directives.pin.commit if directives.pin else "",
        suspended=directives.suspend is not None,
        approved=directives.approve.commit if directives.approve else "",
        leads=cluster.loop.leads(),
        leader=cluster.loop.leader(),
        lastPass=iso_time(latest.ended) if latest else "",
        good=bool(latest and latest.good),
        notes=list(latest.notes) if latest and user.projects is None else [],
    )


@router.get(
    "/{cluster}/resources",
    summary="What is wanted and what is there",
    response_model=list[dict[str, Any]],
    responses=_CACHED_OR_NOT_FOUND,
)
async def resources(
    request: Request, cluster: Cluster, user: Viewer, kind: Kind = "", project: Project = ""
) -> Response:
    key = ("resources", user.projects, kind, project)
    return await cluster.pass_cache.respond(
        request, key, cluster.pass_count, lambda: _list_resources(cluster, user, kind, project)
    )


def _list_resources(cluster: ServedCluster, user: Principal, kind: str, project: str) -> list[dict[str, Any]]:
    view = project_view(cluster, user)
    found = [view.redact(each) for each in _resources(cluster, user) if view.lists(str(each["id"]))]
    if kind:
        found = [each for each in found if each["kind"] == kind]
    if project:
        found = [each for each in found if ref_of(str(each["id"])).project == project]
    return found


@router.get(
    "/{cluster}/resources/{identity:path}",
    summary="One resource",
    response_model=dict[str, Any],
    responses=_CACHED_OR_NOT_FOUND,
)
async def resource(request: Request, cluster: Cluster, user: Viewer, identity: str) -> Response:
    key = ("resource", user.projects, identity)
    return await cluster.pass_cache.respond(
        request, key, cluster.pass_count, lambda: _find_resource(cluster, user, identity)
    )


def _find_resource(cluster: ServedCluster, user: Principal, identity: str) -> dict[str, Any]:
    view = project_view(cluster, user)
    require_visible(view, identity)
    done, actual, _ = last_plan(cluster, user)
    found = next((each for each in _resources(cluster, user) if each["id"] == identity), None)
    if found is None:
        raise HTTPException(404, f"there is no {identity}")
    document = done.desired.documents.get(identity) if done.desired is not None else None
    if document is None and identity in actual.existing:
        document = actual.existing[identity].recorded.document
    return {**view.redact(found), "document": document}


def _resources(cluster: ServedCluster, user: Principal) -> Iterator[dict[str, Any]]:
    done, actual, plan = last_plan(cluster, user)
    wanted = done.desired.digests if done.desired is not None else {}
    waits = {wait.session: wait for wait in plan.waits}
    for row in session_rows(actual, wanted, cluster.loop.workspace.clock.now()):
        apps = apps_of(done.desired, actual, row.id) if done.desired is not None else ()
        yield session_json(row, actual.existing.get(row.id), waits.get(row.id), apps)
    for identity, state, generation in resource_rows(actual, wanted, ""):
        kind = ref_of(identity).kind
        yield {
            "id": identity,
            "kind": kind,
            "state": state,
            "generation": int(generation or 0),
            **(service_json(service_facts(PassView(cluster, user), identity)) if kind == "Service" else {}),
        }


@router.get(
    "/{cluster}/queue",
    summary="Who waits, and why",
    response_model=list[WaitAnswer],
    responses=_CACHED_OR_NOT_FOUND,
)
async def queue(request: Request, cluster: Cluster, user: Viewer) -> Response:
    key = ("queue", user.projects)
    return await cluster.pass_cache.respond(request, key, cluster.pass_count, lambda: _queue(cluster, user))


def _queue(cluster: ServedCluster, user: Principal) -> list[WaitAnswer]:
    view = project_view(cluster, user)
    _, _, plan = last_plan(cluster, user)
    found = [_wait_answer(wait) for wait in plan.waits if view.sees(wait.session)]
    return [WaitAnswer.model_validate(view.redact(each.model_dump())) for each in found]


def _wait_answer(wait: Wait) -> WaitAnswer:
    return WaitAnswer(
        session=wait.session,
        group=wait.group,
        position=wait.position,
        reasons=[ReasonAnswer(code=reason.code, message=reason.message) for reason in wait.reasons],
        freedBy=wait.freed_by,
        latest=iso_time(wait.latest) if wait.latest is not None else "",
        lines=wait_lines(wait),
    )


@router.get(
    "/{cluster}/plan",
    summary="What the loop's last pass planned",
    response_model=dict[str, Any],
    responses=_CACHED_OR_NOT_FOUND,
)
async def plan(request: Request, cluster: Cluster, user: Overseer) -> Response:
    return await cluster.pass_cache.respond(
        request, "plan", cluster.pass_count, lambda: _plan_json(cluster, user)
    )


def _plan_json(cluster: ServedCluster, user: Principal) -> dict[str, Any]:
    from reconciler.values.encoding.plan_json import VERSION, plan_values

    _, _, found = last_plan(cluster, user)
    return {"version": VERSION, "plan": plan_values(found)}


@router.get("/{cluster}/review", summary="What a commit would change", responses=_NOT_FOUND)
def review(
    cluster: Cluster,
    user: Overseer,
    commit: Annotated[str, Query(min_length=4, max_length=100, description="Or a branch or tag.")],
) -> dict[str, Any]:
    from reconciler.review.between_commits import review_of
    from reconciler.review.review_json import review_value

    try:
        return review_value(review_of(cluster.loop.workspace, commit, cluster.review_memory))
    except BaiError as error:
        raise HTTPException(404, str(error)) from None


@router.get(
    "/{cluster}/events",
    summary="What happened",
    response_model=list[EventAnswer],
    responses=_CACHED_OR_NOT_FOUND,
)
def events(
    request: Request,
    cluster: Cluster,
    user: Viewer,
    after: Annotated[int, Query(ge=0, le=2**62, description="Only later ones than this `seq`.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    resource: Annotated[str, Query(max_length=300)] = "",
) -> Response:
    """The newest, oldest first. `limit` counts also what is not for who asks."""

    def make() -> list[object]:
        view = project_view(cluster, user)
        store = cluster.loop.workspace.store
        found = store.events(cluster.name, resource=resource or None, after=after, limit=limit)
        return [view.redact(event_json(event)) for event in found if view.sees(event.resource)]

    key = ("events", user.projects, after, limit, resource)
    return cluster.store_cache.get(key, cluster.version(), make).respond(request)
