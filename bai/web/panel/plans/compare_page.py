"""Two commits: what lies between them, and which documents differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.web.panel.plans.commits import CommitRow, FirstRows, commits_between, first_parent
from bai.web.panel.plans.document_diffs import DocumentDiff, document_diffs
from bai.web.panel.plans.parts import Part

if TYPE_CHECKING:
    from bai.web.panel.plans.commit_reviews import CommitReviews


@dataclass(frozen=True, slots=True)
class ComparePage:
    """`start` and `end` by their full names; `start` is empty where `end` is a first commit. `back`: commits
    that only `start` rests on."""

    start: str
    end: str
    commits: FirstRows[CommitRow]
    back: int
    diffs: Part[DocumentDiff]


def compare_page(reviews: CommitReviews, start: str, end: str, number: int = 1) -> ComparePage:
    """Without a start, what `end` was made on; `number`: of the page of documents. Raises BaiError."""
    head = reviews.find(end)
    other = reviews.find(start) if start else None
    # Where pull requests are, everything else is, too.
    git = next((each.git for each in (head, other) if each is not None and each.pull), reviews.git)
    base = other.commit if other is not None else first_parent(git, head.commit)
    after = reviews.documents(head.commit, git)
    before = reviews.documents(base, git) if base else None
    return ComparePage(
        start=base,
        end=head.commit,
        commits=commits_between(git, base, head.commit),
        back=commits_between(git, head.commit, base, 1).total if base else 0,
        diffs=document_diffs(before, after, number),
    )
