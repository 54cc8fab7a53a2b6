"""What is said about resources other than sessions is written down, or forgotten. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.plan.actions.sides import before_side
from reconciler.plan.context import PlanContext
from reconciler.values.changes.cause import DESTROYED, NEW, REMOVED, SPEC_CHANGED, Cause, CauseCode
from reconciler.values.documents.field_changes import field_changes
from reconciler.values.plan import Action
from reconciler.values.sides import side_type
from reconciler.values.state import Existing
from schemas.values.resource_ref import ref_of


def resource_actions(context: PlanContext) -> list[Action]:
    """Resources other than sessions: what is said about them is written down, or forgotten."""
    wanted: Mapping[str, str] = {} if context.destroy else context.desired.digests
    found = []
    # Nearly all are sessions: they are left out without an instruction for each.
    others = {*wanted, *context.actual.existing}.difference(context.desired.sessions())
    for identity in sorted(others):
        if ref_of(identity).kind == "Session" or not context.may_change(identity):
            continue
        existing = context.actual.existing.get(identity)
        if ref_of(identity).kind == "Kernel":
            found += _remove_stray(context, existing)
        elif action := _record(context, identity, existing):
            found.append(action)
    return found


def _remove_stray(context: PlanContext, existing: Existing | None) -> list[Action]:
    if existing is None:
        return []
    cause = Cause(CauseCode.ORPHAN, "belongs to no resource")
    return [
        Action(
            existing.id,
            context.actual.cluster,
            before_side(existing),
            None,
            cause=cause,
            protected=existing.protected,
        )
    ]


def _record(context: PlanContext, identity: str, existing: Existing | None) -> Action | None:
    cluster = context.actual.cluster
    before = before_side(existing) if existing else None
    if context.destroy or identity not in context.desired.digests:
        cause = DESTROYED if context.destroy else REMOVED
        protected = existing.protected if existing else False
        return Action(identity, cluster, before, None, cause=cause, protected=protected) if before else None
    digest, document = context.desired.digests[identity], context.desired.documents[identity]
    side = side_type(ref_of(identity).kind)
    if before is None:
        return Action(identity, cluster, None, side(1, digest, document), cause=NEW)
    if before.digest == digest:
        same = replace(before, document={})
        return Action(identity, cluster, same, same)
    changes = field_changes(before.document, document)
    after = side(before.generation + 1, digest, document)
    return Action(identity, cluster, before, after, changes, SPEC_CHANGED)
