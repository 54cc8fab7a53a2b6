"""A plan as far as who is placed where: for those who ask what a change of the documents would come to, again
and again. Nothing is ordered, said or sealed, and no action is made where no policy wants to see them. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from planner.model.types import Snapshot
from reconciler.guards.judge import judge_actions
from reconciler.guards.signers import ImageSigners
from reconciler.plan.actions.make_actions import make_actions
from reconciler.plan.context import PlanContext
from reconciler.plan.decide.decide_sessions import decide_sessions
from reconciler.plan.decide.decision import Decisions
from reconciler.plan.place.cluster_views import snapshot_after
from reconciler.plan.place.place_sessions import place_sessions
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.plan.plan_request import PlanRequest
from reconciler.plan.prepare import prepare
from reconciler.plan.verdict import policies_in_force
from reconciler.values.violations import Violation


@dataclass(frozen=True)
class PlanPreview:
    """The first stages of a plan."""

    context: PlanContext
    decisions: Decisions
    placed: PlacementResult

    @cached_property
    def after(self) -> Snapshot:
        """The cluster once the plan is carried out."""
        return snapshot_after(self.context, self.placed)

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """What policies say against it. Raises PlanError for one that cannot be read."""
        context = self.context
        recorded, policies = policies_in_force(context.desired, context.actual)
        if not policies:
            return ()
        actions = make_actions(context, self.decisions, self.placed).actions
        signers = ImageSigners.of(context.actual.images, context.actual.unanswered)
        quotas, day = self.placed.outcome.quotas, context.time.to_the_day()
        return judge_actions(actions, policies, recorded, quotas, day, signers).violations


def make_preview(request: PlanRequest) -> PlanPreview:
    """Raises PlanError for a request that cannot be met."""
    context = prepare(request)
    decisions = decide_sessions(context)
    return PlanPreview(context, decisions, place_sessions(context, decisions, request.options.most_moves))
