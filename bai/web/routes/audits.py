"""Who changed what, from which commit, by which plan."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from bai.render.resources.audit import audit_json
from bai.web.auth.roles import Viewer
from bai.web.dependencies import NOT_MODIFIED, Cluster, error_responses, project_view
from bai.web.response_models import AuditAnswer
from reconciler.sources.commit_facts import CommitFacts
from reconciler.values.records import Audit

router = APIRouter(prefix="/api/v1/clusters/{cluster}", tags=["clusters"])
Text = Annotated[str, Query(max_length=200)]
Moment = Annotated[datetime | None, Query(description="UTC unless it says otherwise.")]


class AuditQuery(BaseModel, frozen=True):
    """Which entries somebody asks for, as the address says it; read by `audit`."""

    resource: Annotated[str, Query(max_length=300)] = ""
    actor: Text = ""
    commit: Text = ""
    plan: Text = ""
    since: Moment = None
    until: Moment = None
    after: Annotated[int, Query(ge=0, le=2**62, description="Only later ones than this `seq`.")] = 0
    limit: Annotated[int, Query(ge=1, le=1000)] = 100


@router.get(
    "/audit",
    summary="Who changed what, oldest first",
    response_model=list[AuditAnswer],
    responses={**error_responses(_404="There is no such cluster."), **NOT_MODIFIED},
)
def audit(
    request: Request,
    cluster: Cluster,
    user: Viewer,
    query: Annotated[AuditQuery, Query()],
) -> Response:
    """The newest that fit. `actor`, `commit` and `plan` are beginnings; `limit` counts also what is not for
    who asks. Entries about the cluster as a whole are for those who see all projects, and so is `author`: the
    commit that a project's session was changed at may be another project's."""

    def make() -> list[object]:
        view = project_view(cluster, user)
        workspace = cluster.loop.workspace
        found: tuple[Audit, ...] = workspace.store.audit(
            cluster.name, resource=query.resource or None, actor=query.actor, commit=query.commit,
            plan=query.plan, since=_timestamp(query.since), until=_timestamp(query.until),
            after=query.after, limit=query.limit,
        )  # fmt: skip
        if not view.sees_everything:
            return [view.redact(audit_json(entry)) for entry in found if view.sees(entry.resource)]
        facts = cluster.commit_facts.read(workspace.source.git, (entry.commit for entry in found))
        return [audit_json(entry, facts.get(entry.commit, CommitFacts()).author) for entry in found]

    key = ("audit", user.projects, query)
    return cluster.store_cache.get(key, cluster.version(), make).respond(request)


def _timestamp(time: datetime | None) -> float | None:
    if time is None:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
