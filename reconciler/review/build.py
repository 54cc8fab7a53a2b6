"""Two versions of the documents and one cluster → what the difference does. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.model.types import GroupUse, Wait
from reconciler.plan.context import Place as Planner
from reconciler.plan.pipeline import make_study
from reconciler.plan.study import Study
from reconciler.review.predicted_state import as_recorded, foreseen, provisioned, sealed_so_far
from reconciler.review.values import Effect, Place, Review
from reconciler.values.placement_json import fingerprint
from reconciler.values.plan import Action, Plan
from reconciler.values.plan_json import sealed
from reconciler.values.provision_status import Upkeep
from reconciler.values.state import Actual, Desired


@dataclass(frozen=True, slots=True)
class Version:
    """One of the two: what it says, and what that makes of nodes and of the planner."""

    desired: Desired
    upkeep: Upkeep | None = None
    place: Planner | None = None


def review(base: Version | None, head: Version, actual: Actual, now: float) -> Review:
    """`base` is None where the cluster is new. Raises PlanError."""
    actual = as_recorded(actual)
    before: Study | None = None
    if base is not None:
        actual = provisioned(actual, base.upkeep)
        before = make_study(base.desired, actual, now, place=base.place)
        actual = foreseen(actual, before.plan)
    actual = replace(actual, upkeep=sealed_so_far(head.upkeep, actual.upkeep if base else None))
    after = make_study(head.desired, actual, now, place=head.place)
    return _compared(base.desired if base else None, head.desired, before, after)


def _compared(base: Desired | None, head: Desired, before: Study | None, after: Study) -> Review:
    first = before.plan if before else None
    known = {wait.session: wait for wait in (first.waits if first else ())}
    still = tuple(wait for wait in after.plan.waits if _same(wait, known.get(wait.session)))
    plan = _narrowed(after.plan, first, {wait.session for wait in still})
    starts = {action.id for action in plan.changes if action.after and action.after.placement}
    found = Review(
        base=base.commit if base else "",
        head=head.commit,
        plan=plan,
        places=tuple(one for action in plan.changes if (one := _place(action)) is not None),
        admitted=tuple(sorted(known.keys() & starts)),
        still=still,
        pending=len(first.changes) if first else 0,
        nodes={**(before.case.nodes if before else {}), **after.case.nodes},
    )
    return replace(found, digest=_digest(found, head))


def _narrowed(plan: Plan, before: Plan | None, still: set[str]) -> Plan:
    """Without what was so before: who waits, what is warned about. What is used before is what the base
    uses."""
    said = set(before.warnings if before else ())
    quotas = {(use.quota, use.subject): use.after for use in (before.quotas if before else ())}
    groups = {use.group: use for use in (before.groups if before else ())}
    return sealed(
        replace(
            plan,
            waits=tuple(wait for wait in plan.waits if wait.session not in still),
            warnings=tuple(warning for warning in plan.warnings if warning not in said),
            drifts=(),
            actions=tuple(action for action in plan.actions if not _only_waits(action, still)),
            quotas=tuple(
                replace(use, before=quotas.get((use.quota, use.subject), use.before)) for use in plan.quotas
            ),
            groups=tuple(_since(use, groups.get(use.group)) for use in plan.groups),
        )
    )


def _since(use: GroupUse, before: GroupUse | None) -> GroupUse:
    return replace(use, before=before.after, fits_before=before.fits_after) if before else use


def _same(wait: Wait, before: Wait | None) -> bool:
    """Whether it waits for the same, whatever the numbers in the words are."""
    return before is not None and _codes(wait) == _codes(before)


def _codes(wait: Wait) -> set[str]:
    return {reason.code for reason in wait.reasons}


def _only_waits(action: Action, still: set[str]) -> bool:
    """A note on a session that waits as before: its document has not changed."""
    return action.id in still and not action.changes


def _place(action: Action) -> Place | None:
    before = action.before.placement if action.before else None
    if before is None or action.before is None or action.before.phase in ("PENDING", "TERMINATED", "ERROR"):
        return None
    after = action.after.placement if action.after else None
    effect = _effect(action)
    if effect is None or (effect == "moved" and after is not None and after.kernels == before.kernels):
        return None
    return Place(action.id, effect, action.why, before, after if effect == "moved" else None)


def _effect(action: Action) -> Effect | None:
    if action.after is None or action.after.phase in ("TERMINATED", "ERROR", "CANCELLED"):
        return "stopped"
    if action.after.phase == "PENDING":
        return "pushed out"
    return "moved"


def _digest(found: Review, head: Desired) -> str:
    return fingerprint(
        {
            "cluster": head.cluster,
            "tree": head.tree,
            "complete": found.complete,
            "actions": [_said(action) for action in found.plan.changes],
            "waits": [[wait.session, sorted(_codes(wait))] for wait in found.plan.waits],
            "refused": [[one.policy, one.guard, list(one.resources)] for one in found.plan.violations],
        }
    )


def _said(action: Action) -> list[object]:
    after = action.after
    changes = [[c.path, c.before, c.after, c.forces] for c in action.changes]
    sides = [side.placement.kernels if side and side.placement else None for side in (action.before, after)]
    return [action.id, action.verb, action.why, changes, after.digest if after else "", *sides]
