"""Two versions of the documents and one cluster → what the difference does. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.model.types import Wait
from planner.model.uses import GroupUse
from reconciler.plan.context import Planner
from reconciler.plan.pipeline import make_study
from reconciler.plan.plan_request import PlanRequest
from reconciler.plan.study import Study
from reconciler.review.memory import ReviewMemory
from reconciler.review.predicted_state import (
    keep_earlier_seals,
    predict_applied,
    predict_provisioned,
    recorded_state,
)
from reconciler.review.values import Disruption, DisruptionEffect, Review
from reconciler.values.encoding.placement_json import fingerprint
from reconciler.values.encoding.plan_json import with_digest
from reconciler.values.plan import Action, Plan
from reconciler.values.provision_status import ProvisionStatus
from reconciler.values.session_phase import ENDED
from reconciler.values.state import Actual, Desired


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """One of the two: what it says, and what that makes of nodes and of the planner."""

    desired: Desired
    provision_status: ProvisionStatus | None = None
    place: Planner | None = None


Tell = Callable[[str], None]
"""Hears what is being done, in words."""


def tell_nobody(what: str) -> None:
    """Nobody waits."""


def build_review(
    base: DocumentVersion | None,
    head: DocumentVersion,
    actual: Actual,
    now: float,
    memory: ReviewMemory | None = None,
    tell: Tell = tell_nobody,
) -> Review:
    """`base` is None where the cluster is new; `memory`: of the reviews before. Raises PlanError."""
    memory = memory or ReviewMemory()
    actual = recorded_state(actual, memory.existing)
    before: Study | None = None
    if base is not None:
        actual = predict_provisioned(actual, base.provision_status)
        tell("planning what is in force")
        before = memory.base.study(PlanRequest(base.desired, actual, now, place=base.place))
        actual = predict_applied(actual, before.plan, memory.existing)
    actual = replace(
        actual,
        provision_status=keep_earlier_seals(head.provision_status, actual.provision_status if base else None),
    )
    tell("planning what it would change")
    after = make_study(PlanRequest(head.desired, actual, now, place=head.place))
    return _compare_studies(base.desired if base else None, head.desired, before, after)


def _compare_studies(base: Desired | None, head: Desired, before: Study | None, after: Study) -> Review:
    first = before.plan if before else None
    known = {wait.session: wait for wait in (first.waits if first else ())}
    still = tuple(wait for wait in after.plan.waits if _waits_for_same(wait, known.get(wait.session)))
    plan = _without_prior(after.plan, first, {wait.session for wait in still})
    starts = {action.id for action in plan.changes if action.placement_after}
    found = Review(
        base=base.commit if base else "",
        head=head.commit,
        plan=plan,
        disruptions=tuple(one for action in plan.changes if (one := _disruption_of(action)) is not None),
        admitted=tuple(sorted(known.keys() & starts)),
        still_waiting=still,
        pending=len(first.changes) if first else 0,
        nodes={**(before.context.nodes if before else {}), **after.context.nodes},
    )
    return replace(found, digest=_review_digest(found, head))


def _without_prior(plan: Plan, before: Plan | None, still: set[str]) -> Plan:
    """Without what was so before: who waits, what is warned about. What is used before is what the base
    uses."""
    said = set(before.warnings if before else ())
    quotas = {(use.quota, use.subject): use.after for use in (before.quotas if before else ())}
    groups = {use.group: use for use in (before.groups if before else ())}
    return with_digest(
        replace(
            plan,
            waits=tuple(wait for wait in plan.waits if wait.session not in still),
            warnings=tuple(warning for warning in plan.warnings if warning not in said),
            drifts=(),
            actions=tuple(action for action in plan.actions if not _is_wait_note(action, still)),
            quotas=tuple(
                replace(use, before=quotas.get((use.quota, use.subject), use.before)) for use in plan.quotas
            ),
            groups=tuple(_group_use_since(use, groups.get(use.group)) for use in plan.groups),
        )
    )


def _group_use_since(use: GroupUse, before: GroupUse | None) -> GroupUse:
    return replace(use, before=before.after, fits_before=before.fits_after) if before else use


def _waits_for_same(wait: Wait, before: Wait | None) -> bool:
    """Whether it waits for the same, whatever the numbers in the words are."""
    return before is not None and _reason_codes(wait) == _reason_codes(before)


def _reason_codes(wait: Wait) -> set[str]:
    return {reason.code for reason in wait.reasons}


def _is_wait_note(action: Action, still: set[str]) -> bool:
    """A note on a session that waits as before: its document has not changed."""
    return action.id in still and not action.changes


def _disruption_of(action: Action) -> Disruption | None:
    session, after = action.session_before, action.placement_after
    before = session.placement if session else None
    if before is None or session is None or session.phase in ("PENDING", "TERMINATED", "ERROR"):
        return None
    effect = _disruption_effect(action)
    if effect is None or (effect == "moved" and after is not None and after.kernels == before.kernels):
        return None
    return Disruption(action.id, effect, action.why, before, after if effect == "moved" else None)


def _disruption_effect(action: Action) -> DisruptionEffect | None:
    after = action.session_after
    if after is None or after.phase in ENDED:
        return "stopped"
    if after.phase == "PENDING":
        return "pushed out"
    return "moved"


def _review_digest(found: Review, head: Desired) -> str:
    return fingerprint(
        {
            "cluster": head.cluster,
            "tree": head.tree,
            "complete": found.complete,
            "actions": [_action_fingerprint(action) for action in found.plan.changes],
            "waits": [[wait.session, sorted(_reason_codes(wait))] for wait in found.plan.waits],
            "refused": [[one.policy, one.guard, list(one.resources)] for one in found.plan.violations],
        }
    )


def _action_fingerprint(action: Action) -> list[object]:
    changes = [[c.path, c.before, c.after, c.forces] for c in action.changes]
    placements = (action.placement_before, action.placement_after)
    kernels = [placement.kernels if placement else None for placement in placements]
    digest = action.after.digest if action.after else ""
    return [action.id, action.verb, action.why, changes, digest, *kernels]
