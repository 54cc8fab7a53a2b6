"""The cluster as it will be once a plan was carried out and nothing went wrong. Pure."""

from __future__ import annotations

from dataclasses import replace

from providers.condition.values import NodeCondition, ProvisionStamp
from providers.provisioning import ProvisionTarget
from reconciler.apply.steps import action_steps
from reconciler.observe.existing_memo import ExistingMemo
from reconciler.observe.observe import actual_state
from reconciler.observe.store_changes import record_changes
from reconciler.values.plan import Plan
from reconciler.values.provision_status import ProvisionStatus
from reconciler.values.records import ProvisionRecord, PutRecord, Recorded
from reconciler.values.session_phase import with_times
from reconciler.values.state import Actual


def predict_applied(actual: Actual, plan: Plan, memo: ExistingMemo) -> Actual:
    """Records as the plan's steps write them, at the time it was made. What runs is what is recorded; folders
    and images on nodes count as not looked at."""
    records = {identity: each.recorded for identity, each in actual.existing.items()}
    for action in plan.changes:
        for step in action_steps(action, plan):
            if step.record is not None:
                records[action.id] = with_times(step.record, records.get(action.id), plan.made_at)
            elif step.kind == "forget":
                records.pop(action.id, None)
    return _state_of_records(actual, records, memo)


def recorded_state(actual: Actual, memo: ExistingMemo) -> Actual:
    """The same state without what a provider said of it."""
    records = {identity: each.recorded for identity, each in actual.existing.items()}
    return _state_of_records(actual, records, memo)


def observed_state(actual: Actual, now: float, memo: ExistingMemo | None = None) -> Actual:
    """The state as it would be recorded if what was seen were written down now. What a provider can do is
    left out: reviews elsewhere do not know it, and this one is compared with them."""
    records = {identity: each.recorded for identity, each in actual.existing.items() if not each.adopted}
    for change in record_changes(actual, now, ""):
        if isinstance(change, PutRecord):
            records[change.record.resource] = change.record
    return replace(_state_of_records(actual, records, memo), capabilities=None)


def predict_provisioned(actual: Actual, provision_status: ProvisionStatus | None) -> Actual:
    """With every node brought to its profile, however many waves that takes."""
    wanted = provision_status.targets if provision_status is not None else {}
    sealed = {name: _sealed_condition(target) for name, target in wanted.items()}
    ready = {
        name: replace(
            actual.provision_records.get(name, ProvisionRecord(name)), state="ready", profile=target.profile,
            fingerprint=target.fingerprint, why="", condition="",
        )
        for name, target in wanted.items()
    }  # fmt: skip
    found = (
        replace(provision_status, conditions=sealed, unreached={}, problem="")
        if provision_status is not None
        else None
    )
    return replace(actual, provision_status=found, provision_records={**actual.provision_records, **ready})


def keep_earlier_seals(
    provision_status: ProvisionStatus | None, before: ProvisionStatus | None
) -> ProvisionStatus | None:
    """What nodes are to be, where those that were provisioned before are as they were then."""
    if provision_status is None or before is None:
        return provision_status
    known = {name: one for name, one in before.conditions.items() if name in provision_status.targets}
    return replace(provision_status, conditions={**provision_status.conditions, **known})


def _sealed_condition(target: ProvisionTarget) -> NodeCondition:
    return NodeCondition(
        target.node, ProvisionStamp(target.profile, target.fingerprint, target.document), os=target.os
    )


def _state_of_records(actual: Actual, records: dict[str, Recorded], memo: ExistingMemo | None) -> Actual:
    found = actual_state(
        records, None, actual.capabilities, repo=actual.repo, cluster=actual.cluster,
        hardware=actual.hardware, memo=memo,
    )  # fmt: skip
    return replace(actual, existing=found.existing, volumes=None, held=None)
