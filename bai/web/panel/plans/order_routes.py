"""Orders that pages send, as the API takes them; each leads to a page that shows what is so now."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from bai.web.cluster_loops import ServedCluster
from bai.web.panel.access.forms import PostedForm
from bai.web.panel.access.visitor import PageAdmin, PageOperator, VisitedCluster, Visitor
from bai.web.panel.links import path
from bai.web.panel.plans.commit_reviews import CommitReviews, FoundCommit
from bai.web.panel.plans.review_page import seen_mark
from bai.web.panel.routes.page_route import page_router
from bai.web.routes.directives import LONGEST_REASON, end_orders, give_order

router = page_router()
_ORDERS = "/clusters/{cluster}/orders"


@router.post(f"{_ORDERS}/suspend")
def suspend(cluster: VisitedCluster, visitor: PageOperator, form: PostedForm) -> Response:
    give_order(cluster, visitor.principal.name, "suspend", _reason(form, needed=True))
    return _lead_to(cluster, "plan")


@router.post(f"{_ORDERS}/resume")
def resume(cluster: VisitedCluster, visitor: PageOperator, form: PostedForm) -> Response:
    end_orders(cluster, visitor.principal.name, _reason(form))
    return _lead_to(cluster, "plan")


@router.post(f"{_ORDERS}/reconcile")
def reconcile(cluster: VisitedCluster, _visitor: PageOperator, _form: PostedForm) -> Response:
    cluster.wake()
    return _lead_to(cluster, "plan")


@router.post(f"{_ORDERS}/approve")
def approve(request: Request, cluster: VisitedCluster, visitor: PageOperator, form: PostedForm) -> Response:
    """Of the commit, and of what it would change, that whoever approves has seen."""
    why = _reason(form)
    seen = _seen_commit(request, cluster, visitor, form)
    if isinstance(seen, Response):
        return seen
    give_order(cluster, visitor.principal.name, "approve", why, seen.commit)
    return _lead_to(cluster, "reviews")


@router.post(f"{_ORDERS}/rollback")
def rollback(request: Request, cluster: VisitedCluster, visitor: PageAdmin, form: PostedForm) -> Response:
    """To a commit of which whoever orders it has seen what going there changes."""
    why = _reason(form, needed=True)
    seen = _seen_commit(request, cluster, visitor, form)
    if isinstance(seen, Response):
        return seen
    if seen.pull:
        raise HTTPException(409, "what a pull request proposes is nothing that a cluster can be held at")
    give_order(cluster, visitor.principal.name, "pin", why, seen.commit)
    return _lead_to(cluster, "plan")


def _seen_commit(
    request: Request, cluster: ServedCluster, visitor: Visitor, form: Mapping[str, str]
) -> FoundCommit | Response:
    """What a form is about, if it is what its page has shown; else the way to what it is now."""
    reviews: CommitReviews = request.app.state.reviews[cluster.name]
    named, seen = form.get("named", ""), form.get("seen", "")
    if not (named and seen):
        raise HTTPException(422, "this form names no commit")
    found = reviews.find(named)
    if seen_mark(found, reviews.review(found, visitor.principal.name)) == seen:
        return found
    return RedirectResponse(path("clusters", cluster.name, "review", commit=named, seen=seen), 303)


def _reason(form: Mapping[str, str], *, needed: bool = False) -> str:
    """Answers 422 to a reason that is too long, or missing."""
    why = form.get("why", "").strip()
    if needed and not why:
        raise HTTPException(422, "say why: others will wonder")
    if len(why) > LONGEST_REASON:
        raise HTTPException(422, f"a reason has at most {LONGEST_REASON} characters")
    return why


def _lead_to(cluster: ServedCluster, page: str) -> Response:
    return RedirectResponse(path("clusters", cluster.name, page), 303)
