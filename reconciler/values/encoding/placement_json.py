"""Planner values ⇄ JSON, in one normal form: for labels and for digests."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from planner.model.types import KernelPlacement
from schemas.problems.errors.plan import PlanError


@functools.cache
def _adapter() -> TypeAdapter[KernelPlacement]:
    return TypeAdapter(KernelPlacement)


def kernel_placement(value: object) -> KernelPlacement:
    """Raises PlanError for anything that is not a kernel's placement."""
    try:
        return _adapter().validate_python(value)
    except ValidationError as error:
        raise PlanError(why=f"not a placement: {error.errors()[0]['msg']}") from error


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_json_value)


def without_unset(part: dict[str, Any]) -> dict[str, Any]:
    """A kernel's placement without what it has nothing to say about its network and huge pages (changed in
    place)."""
    for name in ("network", "ports", "hugepages"):
        if name in part and not part[name]:
            del part[name]
    return part


def _json_value(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return without_unset(found) if isinstance(value, KernelPlacement) else found
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def fingerprint(value: object) -> str:
    """SHA-256 (64 hex digits) of a value's normal form."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
