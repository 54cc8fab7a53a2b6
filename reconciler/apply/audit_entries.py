"""What the audit says of an apply and of each of its actions, from the plan alone."""

from __future__ import annotations

from collections.abc import Iterator

from planner.model.types import Placement
from reconciler.values.plan import Action
from reconciler.values.records import Audit, FieldChange
from reconciler.values.violations import Overridden

_FIELDS = 50
_LENGTH = 300


def apply_entry(apply: str, plan: str, commit: str, count: int, at: float) -> Audit:
    """Somebody begins to carry out a plan of `count` actions."""
    cause = f"{count} action{'' if count == 1 else 's'}"
    return Audit("apply", "", at, cause, commit=commit, plan=plan, apply=apply)


def action_entry(action: Action, apply: str, plan: str, commit: str, at: float) -> Audit:
    """An action of it begins."""
    return Audit(
        action.verb,
        action.id,
        at,
        action.why,
        commit=commit,
        plan=plan,
        apply=apply,
        before=action.before.digest if action.before else "",
        after=action.after.digest if action.after else "",
        changes=tuple(_audited_changes(action)),
    )


def override_entry(one: Overridden, apply: str, plan: str, commit: str, at: float) -> Audit:
    """A Policy does not count for a resource, by its annotation."""
    cause = f"Policy/{one.policy}: {one.guard}, until {one.until}: {one.reason}"
    return Audit("override", one.resource, at, cause, commit=commit, plan=plan, apply=apply)


def failure_entry(action: Action, error: str, apply: str, plan: str, commit: str, at: float) -> Audit:
    """It began, and did not come to its end."""
    return Audit("failed", action.id, at, error, commit=commit, plan=plan, apply=apply)


def _audited_changes(action: Action) -> Iterator[FieldChange]:
    for change in action.changes[:_FIELDS]:
        yield FieldChange(change.path, _truncated(change.before), _truncated(change.after))
    before, after = _placement_text(action.placement_before), _placement_text(action.placement_after)
    if before != after:
        yield FieldChange("placement", _truncated(before), _truncated(after))


def _placement_text(placement: Placement | None) -> str | None:
    """`n1: GPU-1, GPU-2; n2: 4 cores`."""
    if placement is None:
        return None
    parts: dict[str, list[str]] = {}
    for kernel in placement.kernels:
        devices = [grant.id for grant in kernel.devices] or [f"{kernel.cpu_milli / 1000:g} cores"]
        parts.setdefault(kernel.node, []).extend(devices)
    return "; ".join(f"{node}: {', '.join(names)}" for node, names in sorted(parts.items()))


def _truncated(text: str | None) -> str | None:
    if text is None or len(text) <= _LENGTH:
        return text
    return text[: _LENGTH - 3] + "..."
