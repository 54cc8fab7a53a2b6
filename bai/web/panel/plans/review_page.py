"""One commit before it is carried out: its commits, what it would do, its documents, and which orders about
it may be given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bai.web.panel.plans.commits import CommitRow, FirstRows, commits_between
from bai.web.panel.plans.document_diffs import DocumentDiff, document_diffs
from bai.web.panel.plans.parts import Part
from bai.web.panel.plans.plan_view import PlanView, ReviewView, review_view, reviewed_plan_view

if TYPE_CHECKING:
    from bai.web.panel.plans.commit_reviews import CommitReviews, FoundCommit
    from bai.web.panel.views.standing import Powers
    from reconciler.review.between_commits import ReviewedCommit
    from reconciler.values.state import Actual

Moved = Literal["", "another commit", "another effect"]


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """`named`: as it was asked for; `commit`: what that is now. `seen`: what it was when the page was opened,
    `moved`: how it differs from that. `lacks`: commits of what is followed that it does not rest on.
    `may_approve`, `may_hold`: whether whoever looks may order that, and it would count."""

    named: str
    commit: str
    seen: str
    moved: Moved
    is_in_force: bool
    lacks: int
    plan: PlanView
    review: ReviewView
    commits: FirstRows[CommitRow]
    diffs: Part[DocumentDiff]
    may_approve: bool
    may_hold: bool


@dataclass(frozen=True, slots=True)
class AskedReview:
    """`powers`: of whoever looks; `seen`: what it was when the page was opened, empty for now; `nodes`,
    `documents`: which pages of these lists."""

    powers: Powers
    seen: str = ""
    nodes: int = 1
    documents: int = 1


def review_page(
    reviews: CommitReviews, found: FoundCommit, made: ReviewedCommit, actual: Actual, asked: AskedReview
) -> ReviewPage:
    """Raises CannotRead, RemoteError."""
    base = made.base.commit or reviews.in_force
    newest = reviews.newest()
    moved = _moved(asked.seen, seen_mark(found, made))
    may_approve, may_hold = may_order(reviews, found, asked.powers)
    return ReviewPage(
        named=found.named,
        commit=found.commit,
        seen=asked.seen,
        moved=moved,
        is_in_force=found.commit == base,
        lacks=commits_between(found.git, found.commit, newest, 1).total,
        plan=reviewed_plan_view(made, actual, asked.nodes),
        review=review_view(made.review),
        commits=commits_between(found.git, base, found.commit),
        diffs=document_diffs(made.base, made.head, asked.documents),
        may_approve=may_approve and not moved,
        may_hold=may_hold and not moved,
    )


def may_order(reviews: CommitReviews, found: FoundCommit, powers: Powers) -> tuple[bool, bool]:
    """Whether somebody may approve of a commit, and hold the cluster at it, and it would count: what only a
    pull request has is nothing that a cluster can be held at."""
    return powers.orders and reviews.needs_approval, powers.rollback and not found.pull


def seen_mark(found: FoundCommit, made: ReviewedCommit) -> str:
    """The commit, and what it would change: both must be the same when it is ordered."""
    return f"{found.commit}-{made.review.digest}"


def _moved(seen: str, now: str) -> Moved:
    if not seen or seen == now:
        return ""
    return "another effect" if seen.partition("-")[0] == now.partition("-")[0] else "another commit"
