"""The cluster as it will be once a plan was carried out and nothing went wrong. Pure."""

from __future__ import annotations

from dataclasses import replace

from providers.condition.values import Condition, Seal
from providers.provisioning import Target
from reconciler.apply.steps import steps
from reconciler.observe.observe import combine
from reconciler.observe.refresh import refreshed
from reconciler.values.plan import Plan
from reconciler.values.provision_status import Upkeep
from reconciler.values.records import Put, Recorded, Standing
from reconciler.values.session_phase import timed
from reconciler.values.state import Actual


def foreseen(actual: Actual, plan: Plan) -> Actual:
    """Records as the plan's steps write them, at the time it was made. What runs is what is recorded; folders
    and images on nodes count as not looked at."""
    records = {identity: each.recorded for identity, each in actual.existing.items()}
    for action in plan.changes:
        for step in steps(action, plan):
            if step.record is not None:
                records[action.id] = timed(step.record, records.get(action.id), plan.made_at)
            elif step.kind == "forget":
                records.pop(action.id, None)
    return _recorded(actual, records)


def as_recorded(actual: Actual) -> Actual:
    """The same state without what a provider said of it."""
    return _recorded(actual, {identity: each.recorded for identity, each in actual.existing.items()})


def as_seen(actual: Actual, now: float) -> Actual:
    """The state as it would be recorded if what was seen were written down now. What a provider can do is
    left out: reviews elsewhere do not know it, and this one is compared with them."""
    records = {identity: each.recorded for identity, each in actual.existing.items() if not each.adopted}
    for change in refreshed(actual, now, ""):
        if isinstance(change, Put):
            records[change.record.resource] = change.record
    return replace(_recorded(actual, records), capabilities=None)


def provisioned(actual: Actual, upkeep: Upkeep | None) -> Actual:
    """With every node brought to its profile, however many waves that takes."""
    wanted = upkeep.targets if upkeep is not None else {}
    sealed = {name: _sealed(target) for name, target in wanted.items()}
    ready = {
        name: replace(
            actual.standings.get(name, Standing(name)), state="ready", profile=target.profile,
            fingerprint=target.fingerprint, why="", condition="",
        )
        for name, target in wanted.items()
    }  # fmt: skip
    found = replace(upkeep, conditions=sealed, unreached={}, problem="") if upkeep is not None else None
    return replace(actual, upkeep=found, standings={**actual.standings, **ready})


def sealed_so_far(upkeep: Upkeep | None, before: Upkeep | None) -> Upkeep | None:
    """What nodes are to be, where those that were provisioned before are as they were then."""
    if upkeep is None or before is None:
        return upkeep
    known = {name: one for name, one in before.conditions.items() if name in upkeep.targets}
    return replace(upkeep, conditions={**upkeep.conditions, **known})


def _sealed(target: Target) -> Condition:
    return Condition(target.node, Seal(target.profile, target.fingerprint, target.document), os=target.os)


def _recorded(actual: Actual, records: dict[str, Recorded]) -> Actual:
    found = combine(
        records, None, actual.capabilities, repo=actual.repo, cluster=actual.cluster, hardware=actual.hardware
    )
    return replace(actual, existing=found.existing, volumes=None, held=None)
