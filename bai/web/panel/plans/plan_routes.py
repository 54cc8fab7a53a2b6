"""What the last pass planned, what commits would do, and what was done."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field

from bai.queries.facts.node_infos import node_infos
from bai.web.cluster_loops import ServedCluster
from bai.web.dependencies import last_plan
from bai.web.panel.access.visitor import PageOverseer, VisitedCluster, Visitor
from bai.web.panel.links import path
from bai.web.panel.pages import HEADERS, Panel
from bai.web.panel.plans.commit_reviews import CommitReviews, FoundCommit
from bai.web.panel.plans.commits import LONGEST_NAME
from bai.web.panel.plans.compare_page import compare_page
from bai.web.panel.plans.history_page import apply_page, history_page
from bai.web.panel.plans.plan_view import plan_view
from bai.web.panel.plans.planning_queue import Progress
from bai.web.panel.plans.review_page import AskedReview, may_order, review_page, seen_mark
from bai.web.panel.plans.reviews_page import reviews_page
from bai.web.panel.routes.page_route import PageNumber, Values, cluster_frame, cluster_page, page_router
from bai.web.panel.views.standing import Powers, standing_of
from bai.web.pass_view import PassView
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.errors.server import TooMuchPlanned

router = page_router()
Number = Annotated[PageNumber, Query()]
Name = Annotated[str, Query(max_length=LONGEST_NAME)]
Start = Annotated[str, Query(alias="from", max_length=LONGEST_NAME)]
Count = Annotated[int, Query(ge=1, le=1000)]

MOST_PROBLEMS = 50
"""Mistakes that are told of a commit."""
_WAITS = "planning"
"""The element that asks whether a review is there by now."""


class ReviewQuery(BaseModel):
    """`commit`: or a branch or tag, or `#12` for a pull request; `seen`: what it was when somebody opened the
    page who may order it."""

    model_config = ConfigDict(frozen=True)
    commit: str = Field("", max_length=LONGEST_NAME)
    seen: str = Field("", pattern=r"^(([0-9a-f]{40}|[0-9a-f]{64})-[0-9a-f]{64})?$")
    nodes: PageNumber = 1
    documents: PageNumber = 1


def reviews_of(request: Request, cluster: ServedCluster) -> CommitReviews:
    found: CommitReviews = request.app.state.reviews[cluster.name]
    return found


@router.get("/clusters/{cluster}/plan")
def plan(request: Request, cluster: VisitedCluster, visitor: PageOverseer, nodes: Number = 1) -> Response:
    powers = Powers.of(visitor)

    def make(view: PassView) -> Values:
        _, actual, found = last_plan(cluster, visitor.principal)
        infos = node_infos(view.desired, actual)
        return {
            "plan": plan_view(found, infos, infos, nodes),
            "standing": standing_of(view, cluster),
            "powers": powers,
        }

    return cluster_page(request, cluster, visitor, "plans/plan.html", make, key=(powers, nodes))


@router.get("/clusters/{cluster}/reviews")
def reviews(request: Request, cluster: VisitedCluster, visitor: PageOverseer, page: Number = 1) -> Response:
    known = reviews_of(request, cluster)
    requests, powers, fetches = known.open_requests(), Powers.of(visitor), known.refresh()

    def make(view: PassView) -> Values:
        return {
            "page": reviews_page(known, requests, page) if known.has_commits else None,
            "standing": standing_of(view, cluster),
            "powers": powers,
        }

    key = (powers, page, requests, fetches)
    return cluster_page(request, cluster, visitor, "plans/reviews.html", make, key=key)


@router.get("/clusters/{cluster}/review")
def review(
    request: Request, cluster: VisitedCluster, visitor: PageOverseer, asked: Annotated[ReviewQuery, Query()]
) -> Response:
    """Beside what runs: of a commit, branch, tag or pull request. Without one, only the form."""
    if not asked.commit:
        return _review_form(request, cluster, visitor, "")
    known, powers = reviews_of(request, cluster), Powers.of(visitor)
    found, waits = known.find(asked.commit), request.headers.get("hx-trigger") == _WAITS
    try:
        shown = known.look(found, visitor.principal.name)
    except TooMuchPlanned:
        raise
    except BaiError as error:
        if waits:
            return _as_opened()
        if not isinstance(error, InvalidRepository):
            raise
        problems = tuple(map(str, error.problems[:MOST_PROBLEMS]))
        return _review_form(
            request, cluster, visitor, asked.commit, problems, len(error.problems) - len(problems)
        )
    made = shown.made
    if made is None:
        return _planning_page(request, cluster, visitor, known, found, shown.progress)
    if waits:
        return _as_opened()
    if not asked.seen and may_order(known, found, powers) != (False, False):
        # News comes into the page by this address: what is ordered there is what was there to be read.
        here = asked.model_dump(exclude_defaults=True) | {"seen": seen_mark(found, made)}
        return RedirectResponse(path("clusters", cluster.name, "review", **here), 303)

    def make(view: PassView) -> Values:
        wanted = AskedReview(powers, asked.seen, asked.nodes, asked.documents)
        page = review_page(known, found, made, view.actual, wanted)
        return {"page": page, "renewing": shown.progress is not None}

    key = (powers, asked, found, made.review.digest, shown.progress is None)
    return cluster_page(request, cluster, visitor, "plans/review.html", make, key=key)


def _as_opened() -> Response:
    """To a page that waits: it is to be opened anew, with news of the cluster, and the mark of what is
    seen."""
    return Response(headers={**HEADERS, "HX-Refresh": "true"})


def _planning_page(
    request: Request, cluster: ServedCluster, visitor: Visitor, known: CommitReviews, found: FoundCommit,
    progress: Progress | None,
) -> Response:  # fmt: skip
    """Made for who asks, and asked for again by itself: news of the cluster is none for it."""
    panel: Panel = request.app.state.panel
    values = {"found": found, "contents": known.contents(found), "progress": progress}
    fragment = panel.fragment("plans/planning.html", values, cluster.name)
    frame = replace(cluster_frame(request, cluster, visitor), live="")
    return panel.respond(request, fragment, frame)


def _review_form(
    request: Request, cluster: ServedCluster, visitor: Visitor, named: str, problems: tuple[str, ...] = (),
    more: int = 0,
) -> Response:  # fmt: skip
    """`problems`: why what is named is no plan, and how many more of them there are."""
    values = {"page": None, "named": named, "problems": problems, "more": more}
    return cluster_page(
        request, cluster, visitor, "plans/review.html", lambda view: values, key=(named, problems, more)
    )


@router.get("/clusters/{cluster}/history")
def history(request: Request, cluster: VisitedCluster, visitor: PageOverseer, tail: Count = 50) -> Response:
    powers = Powers.of(visitor)

    def make(view: PassView) -> Values:
        return {
            "page": history_page(view, tail),
            "standing": standing_of(view, cluster),
            "powers": powers,
        }

    return cluster_page(request, cluster, visitor, "plans/history.html", make, key=(powers, tail))


@router.get("/clusters/{cluster}/history/{apply}")
def apply(
    request: Request, cluster: VisitedCluster, visitor: PageOverseer, apply: str, page: Number = 1
) -> Response:
    def make(view: PassView) -> Values:
        return {"page": apply_page(view, apply, page)}

    return cluster_page(request, cluster, visitor, "plans/apply.html", make, key=(apply, page))


@router.get("/clusters/{cluster}/compare")
def compare(
    request: Request, cluster: VisitedCluster, visitor: PageOverseer, start: Start = "", to: Name = "",
    documents: Number = 1,
) -> Response:  # fmt: skip
    """Without a start, with what the commit was made on; with neither, only the form."""
    if not to:
        return _compare_form(request, cluster, visitor, start)
    found = compare_page(reviews_of(request, cluster), start, to, documents)

    def make(view: PassView) -> Values:
        return {"page": found, "start": start, "end": to}

    return cluster_page(request, cluster, visitor, "plans/compare.html", make, key=found)


def _compare_form(request: Request, cluster: ServedCluster, visitor: Visitor, start: str) -> Response:
    values = {"page": None, "start": start, "end": ""}
    return cluster_page(request, cluster, visitor, "plans/compare.html", lambda view: values, key=start)
