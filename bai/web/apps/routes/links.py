"""Links that open an app for whoever has them: made by those who may open it themselves, for a while."""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from bai.render.humanize import iso_time
from bai.web.apps.codes_and_links import AppLinks
from bai.web.apps.decision import NO_SUCH_APP, refusal
from bai.web.apps.reserved_paths import LINK
from bai.web.apps.table import AppTable, FoundApp
from bai.web.auth.roles import Principal, Viewer
from bai.web.dependencies import Cluster, error_responses
from bai.web.panel.access.cookies import CookieSealer
from bai.web.response_models import AppLinkAnswer
from reconciler.values.apps.app import App
from reconciler.values.records import Audit

router = APIRouter(prefix="/api/v1/clusters/{cluster}", tags=["apps"])
_ANSWERS = error_responses(
    _404="There is no such cluster or app.", _409="A link would be of no use: it is not running, or public."
)
_LONGEST = 31 * 86_400
Part = Annotated[str, Path(max_length=100)]


class LinkWish(BaseModel):
    """For how many seconds."""

    model_config = ConfigDict(extra="forbid")
    seconds: int = Field(alias="for", ge=1, le=_LONGEST)


@router.post("/apps/{project}/{session}/{app}/links", responses=_ANSWERS, summary="Share an app by a link")
def share_app(
    request: Request, cluster: Cluster, user: Viewer, project: Part, session: Part, app: Part, wish: LinkWish
) -> AppLinkAnswer:
    """For who may open the app. The link ends at its time, no later than the cluster's AppProxy allows, and
    when the session is replaced; that to a service when this is removed or has another owner. It stands in
    the audit when it is made, and when it is first used."""
    table: AppTable = request.app.state.apps
    site = table.site(cluster.name)
    found = site.named(project, session, app) if site is not None else None
    shared = _require_shareable(found, user)
    assert site is not None
    longest = site.proxy.spec.longest_link
    if not longest:
        raise HTTPException(403, "no links to apps of this cluster are made")
    if wish.seconds > longest:
        raise HTTPException(403, f"links to apps of this cluster last {longest} seconds at most")
    workspace, sealer = cluster.loop.workspace, _sealer(request)
    until = time.time() + wish.seconds
    cause = f"app {shared.name}: a link for whoever has it, until {iso_time(until)}"
    entry = Audit("share-app", shared.identity, workspace.clock.now(), cause, user.name)
    workspace.store.record_audit(cluster.name, entry)
    token = AppLinks(sealer).make(shared.host, shared.incarnation, user.name, until)
    return AppLinkAnswer(url=f"{shared.url}{LINK}?{urlencode({'token': token})}", until=iso_time(until))


def _require_shareable(found: FoundApp | None, user: Principal) -> App:
    """Answers 404 for what is not there or not theirs to see, 403 to who may not open it, 409 where a link
    would be of no use."""
    app = found.app if found is not None else None
    owners = found.owners if found is not None else ()
    refused = refusal(user, app, owners)
    if app is None or refused is not None:
        status, why = (refused.status, refused.why) if refused is not None else (404, NO_SUCH_APP)
        raise HTTPException(status, why)
    if app.access == "public":
        raise HTTPException(409, "this app is open to everybody: its address is all they need")
    if not app.incarnation:
        raise HTTPException(409, f"its session is {app.phase}: a link is of one that runs")
    return app


def _sealer(request: Request) -> CookieSealer:
    sealer: CookieSealer = request.app.state.panel.sealer
    return sealer
