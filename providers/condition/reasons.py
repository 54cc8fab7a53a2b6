"""Why a node is not what its profile says, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from providers.condition.values import NodeCondition

_LEFT_OUT = "left out"
_LONGEST = 60


def provision_reasons(
    condition: NodeCondition, *, profile: str, fingerprint: str, document: Mapping[str, Any]
) -> tuple[str, ...]:
    """Empty when nothing is to be done."""
    stamp = condition.stamp
    if stamp is None:
        return (
            f"never provisioned: {condition.stamp_problem}"
            if condition.stamp_problem
            else "never provisioned",
        )
    found = []
    if stamp.unfinished:
        found.append("its last provisioning did not come to its end")
    if stamp.fingerprint != fingerprint:
        found.append(_describe_change(stamp.profile, stamp.document, profile, document))
    return (*found, *(f"drift: {each}" for each in condition.deviations))


def _describe_change(before: str, old: Mapping[str, Any], profile: str, new: Mapping[str, Any]) -> str:
    fields = tuple(document_changes(old, new))
    if before != profile:
        start = f"profile {before} → {profile}"
    elif fields:
        start = f"profile {profile} changed"
    else:
        return f"the roles of profile {profile} changed"
    return start + (f": {', '.join(fields)}" if fields else "")


def document_changes(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """`nvidiaDriver.version 550.90.07 → 560.35.03`, by field."""
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        where = f"{path}.{name}" if path else str(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from document_changes(before, after, where)
        else:
            yield f"{where} {_text(before)} → {_text(after)}"


def _text(value: object) -> str:
    if value is None:
        return _LEFT_OUT
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{name}: {_text(each)}" for name, each in value.items()) + "}"
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(_text(each) for each in value) + "]"
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
