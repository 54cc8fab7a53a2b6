"""A plan, or what a commit would change, for its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.queries.facts.node_infos import node_infos
from bai.render.plan.contents import PlanContents, plan_contents
from bai.render.plan.review_sections import (
    commit_range,
    refusal_line,
    review_headline,
    review_notes,
    session_outcome,
    untrusted_commit_lines,
)
from bai.render.plan.sections import override_lines, plan_source, plan_summary, violation_lines
from bai.render.plan.usage import SlotUsageRow, fit_lines, group_rows, quota_rows
from bai.web.panel.plans.node_pairs import NodePair, node_pairs
from bai.web.panel.plans.parts import Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.model.types import NodeInfo
    from reconciler.review.between_commits import ReviewedCommit
    from reconciler.review.values import Review
    from reconciler.values.plan import Plan
    from reconciler.values.state import Actual


@dataclass(frozen=True, slots=True)
class PlanView:
    """What a page shows of a plan."""

    summary: str
    source: str
    refusals: tuple[str, ...]
    overrides: tuple[str, ...]
    contents: PlanContents
    pairs: Part[NodePair]
    groups: tuple[SlotUsageRow, ...]
    quotas: tuple[SlotUsageRow, ...]
    fits: tuple[str, ...]
    drifts: tuple[tuple[str, str], ...]
    """Resource, and what is not as it should be."""


@dataclass(frozen=True, slots=True)
class MovedSession:
    session: str
    effect: str
    outcome: str
    why: str


@dataclass(frozen=True, slots=True)
class ReviewView:
    """What stands around the plan of a commit."""

    commits: str
    headline: str
    refusal: str
    notes: tuple[str, ...]
    untrusted: tuple[str, ...]
    moved: tuple[MovedSession, ...]
    digest: str


def plan_view(
    plan: Plan, before: Mapping[str, NodeInfo], after: Mapping[str, NodeInfo], nodes: int = 1
) -> PlanView:
    """For who sees all projects. `before`, `after`: machines by name, for their pictures; `nodes`: which page
    of these."""
    contents = plan_contents(plan, after, details=False)
    return PlanView(
        summary=plan_summary(plan),
        source=plan_source(plan),
        refusals=tuple(violation_lines(plan)),
        overrides=tuple(override_lines(plan)),
        contents=contents,
        pairs=node_pairs(plan, before, after, nodes),
        groups=tuple(group_rows(plan)),
        quotas=tuple(quota_rows(plan)),
        fits=tuple(fit_lines(plan)),
        drifts=tuple((each.resource, each.what) for each in plan.drifts[: contents.most_lines]),
    )


def reviewed_plan_view(made: ReviewedCommit, actual: Actual, nodes: int = 1) -> PlanView:
    """Of what a commit would do. `actual`: what was seen last."""
    return plan_view(made.review.plan, node_infos(made.base, actual), made.review.nodes, nodes)


def review_view(review: Review) -> ReviewView:
    return ReviewView(
        commits=commit_range(review),
        headline=review_headline(review),
        refusal=refusal_line(review),
        notes=tuple(review_notes(review)),
        untrusted=tuple(untrusted_commit_lines(review)),
        moved=tuple(
            MovedSession(each.session, each.effect, session_outcome(each, review.nodes), each.why)
            for each in review.disruptions
        ),
        digest=review.digest,
    )
