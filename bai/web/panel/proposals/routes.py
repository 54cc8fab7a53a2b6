"""Pages on which somebody writes a session, or changes what there is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from bai.render.humanize import iso_time
from bai.web.cluster_loops import ServedCluster
from bai.web.panel.access.forms import PostedForm
from bai.web.panel.access.visitor import PageViewer, VisitedCluster, Visitor
from bai.web.panel.links import path
from bai.web.panel.pages import HEADERS, Panel
from bai.web.panel.plans.commit_reviews import ORDER_PATIENCE
from bai.web.panel.proposals.desk import VERB, ClusterDesk, ProposalDesks
from bai.web.panel.proposals.preview import ProblemRow, problem_preview, problem_rows
from bai.web.panel.proposals.requests import ChangeRequest, read_request
from bai.web.panel.proposals.views import (
    LONGEST_DRAFT,
    change_page,
    draft_preview,
    new_page,
    posted_text,
    start_text,
)
from bai.web.panel.routes.page_route import Text, Values, cluster_frame, cluster_page, page_router
from bai.web.pass_view import PassView
from schemas.problems.errors.base import BaiError
from schemas.values.resource_ref import ref_of

router = page_router()
_HERE = "/clusters/{cluster}"
_WHERE = re.compile(r"to (\S+)(?:, (https?://\S+))?(?:; (.*))?")
Draft = Annotated[str, Query(max_length=LONGEST_DRAFT)]


@router.get(f"{_HERE}/new")
def new(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, yaml: Draft = "", template: Text = "",
    project: Text = "", copy: Text = "",
) -> Response:  # fmt: skip
    """`yaml`: a draft; `copy`: a session's identity."""
    view, desk = _opened(request, cluster, visitor)
    text = yaml or start_text(view, desk, visitor.principal, template=template, project=project, copied=copy)
    return _show(request, cluster, visitor, "proposals/new.html", {"page": new_page(view, text)})


@router.post(f"{_HERE}/new/preview")
def preview(request: Request, cluster: VisitedCluster, visitor: PageViewer, form: PostedForm) -> Response:
    """What the session would get, for an open page: with the YAML of changed fields, or the fields of changed
    YAML. The address then has the draft in it."""
    view, desk = _opened(request, cluster, visitor)
    with desk.turns.turn(visitor.principal.name) as is_latest:
        if not is_latest:
            return Response(status_code=204)
        text = form.get("text", "")
        try:
            text = posted_text(form)
            found = draft_preview(view, desk, visitor.principal, text)
        except BaiError as error:
            found = problem_preview(view, error)
    by_fields = form.get("text", "").replace("\r\n", "\n").strip() != text.strip()
    values = {"page": new_page(view, text, found), "by_fields": by_fields}
    panel: Panel = request.app.state.panel
    answer = HTMLResponse(
        panel.fragment("proposals/preview.html", values, cluster.name).main, headers=HEADERS
    )
    address = path("clusters", cluster.name, "new", yaml=text)
    answer.headers["HX-Replace-Url"] = address if len(address) <= LONGEST_DRAFT else "false"
    return answer


@router.post(f"{_HERE}/new")
def look_at_new(request: Request, cluster: VisitedCluster, visitor: PageViewer, form: PostedForm) -> Response:
    """The draft as a change, before it is made."""
    view, _ = _opened(request, cluster, visitor)
    try:
        text = posted_text(form)
    except BaiError as error:
        values = {"page": new_page(view, form.get("text", ""), problem_preview(view, error))}
        return _show(request, cluster, visitor, "proposals/new.html", values, 422)
    return _look(request, cluster, visitor, ChangeRequest("add", text=text))


@router.get(f"{_HERE}/change")
def change(
    request: Request, cluster: VisitedCluster, visitor: PageViewer, action: Text = "", target: Text = "",
    value: Text = "",
) -> Response:  # fmt: skip
    return _look(request, cluster, visitor, read_request(action, target, value, ""))


@router.post(f"{_HERE}/change")
def make_change(request: Request, cluster: VisitedCluster, visitor: PageViewer, form: PostedForm) -> Response:
    """Looked at, or (with `do=commit`) made."""
    asked = read_request(*(form.get(name, "") for name in ("action", "target", "value", "text")))
    if form.get("do") != "commit":
        return _look(request, cluster, visitor, asked)
    view, desk = _opened(request, cluster, visitor)
    try:
        pushed = desk.publish(asked, visitor.principal, form.get("base", ""), form.get("reason", ""))
    except BaiError as error:
        rows = tuple(problem_rows(view, error))
        return _look(request, cluster, visitor, asked, failed=rows, reason=form.get("reason", ""))
    return RedirectResponse(path("clusters", cluster.name, "changes", pushed.commit), 303)


@dataclass(frozen=True, slots=True)
class MadePage:
    """A change that was made: who has pushed it where and when; `request`: the pull request's address,
    `note`: why there is none. `needs_approval`: it is in what is followed, and nobody has approved of it yet;
    `may_review`: whether whoever looks sees the page for that. `phase`: of its session now, empty where there
    is none."""

    commit: str
    identity: str
    branch: str
    request: str
    note: str
    actor: str
    at: str
    is_followed: bool
    needs_approval: bool
    may_review: bool
    phase: str
    is_session: bool
    is_running: bool


@router.get(f"{_HERE}/changes/{{commit}}")
def made(request: Request, cluster: VisitedCluster, visitor: PageViewer, commit: str) -> Response:
    desk = _desk(request, cluster)

    def make(view: PassView) -> Values:
        return {"page": _made_page(view, desk, commit)}

    return cluster_page(request, cluster, visitor, "proposals/made.html", make, key=commit)


def _made_page(view: PassView, desk: ClusterDesk, commit: str) -> MadePage:
    store, is_whole = view.store, re.fullmatch(r"[0-9a-f]{40,64}", commit)
    entries = store.audit(view.cluster, commit=commit, limit=10) if store is not None and is_whole else ()
    entry = next((each for each in entries if each.verb == VERB and view.sees(each.resource)), None)
    if entry is None:
        raise HTTPException(404, "no change of this name was made here")
    where = _WHERE.fullmatch(entry.cause)
    branch, address, note = (part or "" for part in where.groups()) if where else ("", "", "")
    item = view.actual.existing.get(entry.resource)
    return MadePage(
        commit=commit, identity=entry.resource, branch=branch, request=address, note=note,
        actor=entry.actor, at=iso_time(entry.at), is_followed=desk.is_followed(commit),
        needs_approval=desk.waits_for_approval(commit), may_review=view.whole,
        phase=item.phase if item else "", is_session=ref_of(entry.resource).kind == "Session",
        is_running=entry.resource in view.desired.digests,
    )  # fmt: skip


def _look(
    request: Request, cluster: ServedCluster, visitor: Visitor, asked: ChangeRequest,
    failed: tuple[ProblemRow, ...] = (), reason: str = "",
) -> Response:  # fmt: skip
    """`failed`: why it could not be made just now; 403 is said to whoever may not make it at all."""
    view, desk = _opened(request, cluster, visitor)
    # What was typed stays on the page that says what went wrong: that one is not asked for again.
    patience = ORDER_PATIENCE if failed else None
    with desk.turns.turn(visitor.principal.name) if asked.action == "add" else nullcontext(True) as is_latest:
        if not is_latest:
            raise HTTPException(503, "you have asked for another page meanwhile")
        page = change_page(view, desk, visitor.principal, asked, patience)
    values = {"page": page, "failed": failed, "reason": reason}
    is_news, refused = request.headers.get("hx-request") == "true", 403 if page.way.is_denied else 409
    status = 200 if is_news else refused if failed else 422 if page.problems else 200
    return _show(request, cluster, visitor, "proposals/change.html", values, status)


def _desk(request: Request, cluster: ServedCluster) -> ClusterDesk:
    desks: ProposalDesks = request.app.state.proposals
    return desks.by_cluster[cluster.name]


def _opened(request: Request, cluster: ServedCluster, visitor: Visitor) -> tuple[PassView, ClusterDesk]:
    return PassView(cluster, visitor.principal), _desk(request, cluster)


def _show(
    request: Request, cluster: ServedCluster, visitor: Visitor, template: str, values: Mapping[str, Any],
    status: int = 200,
) -> Response:  # fmt: skip
    """Made for who asks, and never again by itself: what was typed stays."""
    panel: Panel = request.app.state.panel
    frame = replace(cluster_frame(request, cluster, visitor), live="")
    fragment = panel.fragment(template, values, cluster.name)
    return panel.respond(request, fragment, frame, status)
