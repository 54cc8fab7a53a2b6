"""Why a node is to be provisioned, and why it takes no sessions before it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from providers.condition.values import Condition, Seal
from providers.provisioning import Target
from reconciler.values.field_changes import field_changes
from reconciler.values.plan import Change
from reconciler.values.provision_status import Upkeep
from reconciler.values.records import Standing

NEVER = "never provisioned"
_SHOWN = 2
_UNDONE = frozenset({"provisioning", "failed"})


Kind = Literal["never", "failed", "unfinished", "changed", "drift"]
"""Never provisioned, not to the end (`failed`: it was said why), not as its profile is now, not as it was."""


@dataclass(frozen=True, slots=True)
class Cause:
    """`changes`: of its profile since it was provisioned."""

    why: str
    kind: Kind
    changes: tuple[Change, ...] = ()

    @property
    def resumed(self) -> bool:
        """Somebody was at it before and did not get to the end."""
        return self.kind in ("failed", "unfinished")


def cause(upkeep: Upkeep, standings: Mapping[str, Standing], node: str) -> Cause | None:
    """What makes provisioning of a node necessary; None when nothing does."""
    target = upkeep.targets.get(node)
    if target is None:
        return None
    undone = _undone(standings.get(node))
    condition, standing = upkeep.conditions.get(node), standings.get(node)
    if condition is None and standing is not None and standing.state == "ready":
        return _by_store(target, standing)
    found = _differs(target, condition)
    if undone:
        kind: Kind = "failed" if standing is not None and standing.state == "failed" else "unfinished"
        return Cause(undone, kind, found.changes if found else ())
    if found is not None and found.kind == "never" and standing is not None and standing.state == "ready":
        return replace(found, why=f"its seal is gone, it may have been installed anew ({found.why})")
    return found


def unready(upkeep: Upkeep | None, standings: Mapping[str, Standing], node: str) -> str:
    """Why a node takes no sessions for the sake of its provisioning; empty when it takes some.

    A node that differs from its profile goes on serving until it is its turn.
    """
    if upkeep is None or node not in upkeep.targets:
        return ""
    if undone := _undone(standings.get(node)):
        return undone
    if upkeep.sealed(node):
        return ""
    condition, standing = upkeep.conditions.get(node), standings.get(node)
    if condition is None and standing is not None and standing.state == "ready":
        return ""
    if condition is not None and condition.seal_problem:
        return f"{NEVER}, as far as is known: {condition.seal_problem}"
    if condition is None and node in upkeep.unreached:
        return f"{NEVER}, as far as is known: not reached"
    return NEVER


def never_joined(upkeep: Upkeep | None, standings: Mapping[str, Standing], node: str) -> bool:
    """Whether a node was looked at and carries no seal, nor was ever ready: none of ours ever ran there."""
    if upkeep is None or node not in upkeep.targets:
        return False
    condition, standing = upkeep.conditions.get(node), standings.get(node)
    bare = condition is not None and condition.sealed is None and not condition.seal_problem
    return bare and (standing is None or standing.state != "ready")


def _by_store(target: Target, standing: Standing) -> Cause | None:
    """What can be said of a node that nobody could look at since it was provisioned."""
    if standing.fingerprint == target.fingerprint:
        return None
    if standing.profile != target.profile:
        return Cause(f"profile {standing.profile} is now {target.profile}", "changed")
    return Cause(f"profile {target.profile} is not what it was provisioned with", "changed")


def _undone(standing: Standing | None) -> str:
    if standing is None or standing.state not in _UNDONE:
        return ""
    if standing.state == "provisioning":
        return "its provisioning was not finished"
    return f"its provisioning failed: {standing.why}"


def _differs(target: Target, condition: Condition | None) -> Cause | None:
    if condition is None:
        return Cause(NEVER, "never")
    seal = condition.sealed
    if seal is not None and seal.unfinished:
        return Cause("its last provisioning was not finished", "unfinished")
    if seal is None:
        return Cause(f"{NEVER}: {condition.seal_problem}" if condition.seal_problem else NEVER, "never")
    if seal.fingerprint != target.fingerprint:
        return _changed(seal, target)
    if condition.deviations:
        shown = "; ".join(str(each) for each in condition.deviations[:_SHOWN])
        more = len(condition.deviations) - _SHOWN
        return Cause(f"drift: {shown}" + (f" and {more} more" if more > 0 else ""), "drift")
    return None


def _changed(seal: Seal, target: Target) -> Cause:
    changes = field_changes(seal.document, target.document)
    if seal.profile != target.profile:
        return Cause(f"profile {seal.profile} is now {target.profile}", "changed", changes)
    if not changes:
        why = f"the roles behind profile {target.profile} are not those it was provisioned with"
        return Cause(why, "changed")
    shown = ", ".join(f"{each.path} {_word(each.before)} → {_word(each.after)}" for each in changes[:_SHOWN])
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return Cause(f"profile {target.profile} changed: {shown}{more}", "changed", changes)


def _word(value: str | None) -> str:
    if value is None:
        return "(none)"
    return value if len(value) <= 40 else f"{value[:37]}..."
