"""Why a node is to be provisioned, and why it takes no sessions before it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from providers.condition.values import NodeCondition, ProvisionStamp
from providers.provisioning import ProvisionTarget
from reconciler.values.changes.change import Change
from reconciler.values.documents.field_changes import field_changes
from reconciler.values.provision_status import ProvisionStatus
from reconciler.values.records import ProvisionRecord

NEVER_PROVISIONED = "never provisioned"
_SHOWN = 2
_UNFINISHED = frozenset({"provisioning", "failed"})


ReasonKind = Literal["never", "failed", "unfinished", "changed", "drift"]
"""Never provisioned, not to the end (`failed`: it was said why), not as its profile is now, not as it was."""


@dataclass(frozen=True, slots=True)
class ProvisionReason:
    """`changes`: of its profile since it was provisioned."""

    why: str
    kind: ReasonKind
    changes: tuple[Change, ...] = ()

    @property
    def resumed(self) -> bool:
        """Somebody was at it before and did not get to the end."""
        return self.kind in ("failed", "unfinished")


def provision_reason(
    status: ProvisionStatus, records: Mapping[str, ProvisionRecord], node: str
) -> ProvisionReason | None:
    """What makes provisioning of a node necessary; None when nothing does."""
    target = status.targets.get(node)
    if target is None:
        return None
    unfinished = _unfinished_reason(records.get(node))
    condition, record = status.conditions.get(node), records.get(node)
    if condition is None and record is not None and record.state == "ready":
        return _reason_by_store(target, record)
    found = _difference(target, condition)
    if unfinished:
        kind: ReasonKind = "failed" if record is not None and record.state == "failed" else "unfinished"
        return ProvisionReason(unfinished, kind, found.changes if found else ())
    if found is not None and found.kind == "never" and record is not None and record.state == "ready":
        return replace(found, why=f"its seal is gone, it may have been installed anew ({found.why})")
    return found


def unready_reason(status: ProvisionStatus | None, records: Mapping[str, ProvisionRecord], node: str) -> str:
    """Why a node takes no sessions for the sake of its provisioning; empty when it takes some.

    A node that differs from its profile goes on serving until it is its turn.
    """
    if status is None or node not in status.targets:
        return ""
    if unfinished := _unfinished_reason(records.get(node)):
        return unfinished
    if status.sealed(node):
        return ""
    condition, record = status.conditions.get(node), records.get(node)
    if condition is None and record is not None and record.state == "ready":
        return ""
    if condition is not None and condition.stamp_problem:
        return f"{NEVER_PROVISIONED}, as far as is known: {condition.stamp_problem}"
    if condition is None and node in status.unreached:
        return f"{NEVER_PROVISIONED}, as far as is known: not reached"
    return NEVER_PROVISIONED


def never_provisioned(
    status: ProvisionStatus | None, records: Mapping[str, ProvisionRecord], node: str
) -> bool:
    """Whether a node was looked at and carries no seal, nor was ever ready: none of ours ever ran there."""
    if status is None or node not in status.targets:
        return False
    condition, record = status.conditions.get(node), records.get(node)
    bare = condition is not None and condition.stamp is None and not condition.stamp_problem
    return bare and (record is None or record.state != "ready")


def _reason_by_store(target: ProvisionTarget, record: ProvisionRecord) -> ProvisionReason | None:
    """What can be said of a node that nobody could look at since it was provisioned."""
    if record.fingerprint == target.fingerprint:
        return None
    if record.profile != target.profile:
        return ProvisionReason(f"profile {record.profile} is now {target.profile}", "changed")
    return ProvisionReason(f"profile {target.profile} is not what it was provisioned with", "changed")


def _unfinished_reason(record: ProvisionRecord | None) -> str:
    if record is None or record.state not in _UNFINISHED:
        return ""
    if record.state == "provisioning":
        return "its provisioning was not finished"
    return f"its provisioning failed: {record.why}"


def _difference(target: ProvisionTarget, condition: NodeCondition | None) -> ProvisionReason | None:
    if condition is None:
        return ProvisionReason(NEVER_PROVISIONED, "never")
    seal = condition.stamp
    if seal is not None and seal.unfinished:
        return ProvisionReason("its last provisioning was not finished", "unfinished")
    if seal is None:
        problem = f": {condition.stamp_problem}" if condition.stamp_problem else ""
        return ProvisionReason(f"{NEVER_PROVISIONED}{problem}", "never")
    if seal.fingerprint != target.fingerprint:
        return _profile_change(seal, target)
    if condition.deviations:
        shown = "; ".join(str(each) for each in condition.deviations[:_SHOWN])
        more = len(condition.deviations) - _SHOWN
        return ProvisionReason(f"drift: {shown}" + (f" and {more} more" if more > 0 else ""), "drift")
    return None


def _profile_change(seal: ProvisionStamp, target: ProvisionTarget) -> ProvisionReason:
    changes = field_changes(seal.document, target.document)
    if seal.profile != target.profile:
        return ProvisionReason(f"profile {seal.profile} is now {target.profile}", "changed", changes)
    if not changes:
        why = f"the roles behind profile {target.profile} are not those it was provisioned with"
        return ProvisionReason(why, "changed")
    shown = ", ".join(
        f"{each.path} {_shortened(each.before)} → {_shortened(each.after)}" for each in changes[:_SHOWN]
    )
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return ProvisionReason(f"profile {target.profile} changed: {shown}{more}", "changed", changes)


def _shortened(value: str | None) -> str:
    if value is None:
        return "(none)"
    return value if len(value) <= 40 else f"{value[:37]}..."
