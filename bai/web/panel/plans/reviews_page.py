"""What could be carried out next: commits of what is followed, other branches, and pull requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.web.panel.plans.commits import BranchRow, CommitRow, FirstRows, commits_between, newer_branches
from bai.web.panel.plans.parts import Part, cut

if TYPE_CHECKING:
    from bai.web.panel.plans.commit_reviews import CommitReviews
    from bai.web.panel.plans.open_requests import KnownRequests
    from providers.forge.base import OpenRequest

MOST_BRANCHES = 50
"""Branches that one page lists."""


@dataclass(frozen=True, slots=True)
class ReviewsPage:
    """`followed`: the branch or tag, empty for a folder; `newest`: its commit; `unapplied`: those of it that
    are not in force. `requests` is None where no forge is configured; `problem`: why they are not those of
    now."""

    followed: str
    newest: str
    needs_approval: bool
    unapplied: FirstRows[CommitRow]
    branches: Part[BranchRow]
    requests: tuple[OpenRequest, ...] | None
    is_asked: bool
    problem: str


def reviews_page(reviews: CommitReviews, known: KnownRequests | None, number: int = 1) -> ReviewsPage:
    """`number`: of the page of branches. Raises CannotRead, RemoteError."""
    git, newest, followed = reviews.git, reviews.newest(), reviews.followed
    own = f"refs/heads/{followed}"
    branches = [each for each in newer_branches(git, newest) if each.ref != own]
    requests = known.requests if known is not None else ()
    return ReviewsPage(
        followed=followed,
        newest=newest,
        needs_approval=reviews.needs_approval,
        unapplied=commits_between(git, reviews.in_force, newest),
        branches=cut(branches, number, MOST_BRANCHES),
        requests=tuple(each for each in requests if each.base == followed) if known is not None else None,
        is_asked=known is not None and known.asked,
        problem=known.problem if known is not None else "",
    )
