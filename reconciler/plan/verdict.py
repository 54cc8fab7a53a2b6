"""What the cluster's policies say of a plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.guards.judge import EnforcedPolicy, enforced_policies, judge_actions, with_verdict
from reconciler.guards.signers import ImageSigners
from reconciler.plan.context import PlanContext
from reconciler.values.plan import Plan
from reconciler.values.records import Recorded
from reconciler.values.state import Actual, Desired


def add_verdict(context: PlanContext, plan: Plan) -> Plan:
    """The plan with what stands against it: what is protected, or against a Policy."""
    recorded, policies = policies_in_force(context.desired, context.actual, destroy=context.destroy)
    signers = ImageSigners.of(context.actual.images, context.actual.unanswered)
    verdict = judge_actions(plan.actions, policies, recorded, plan.quotas, context.time.to_the_day(), signers)
    return with_verdict(plan, verdict)


def policies_in_force(
    desired: Desired, actual: Actual, *, destroy: bool = False
) -> tuple[Mapping[str, Recorded], tuple[EnforcedPolicy, ...]]:
    """What is recorded, and the policies that hold. Raises PlanError as `enforced` does."""
    recorded = {identity: each.recorded for identity, each in actual.existing.items()}
    digests = {} if destroy else desired.digests
    return recorded, enforced_policies(recorded, digests, desired.documents)
