"""Which fields differ, and which of them cannot change while a session runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from reconciler.values.changes.change import Change
from reconciler.values.encoding.placement_json import canonical_json

if TYPE_CHECKING:
    from providers.base import Capabilities

_NEVER_FORCING = (
    "metadata.labels.*",
    "metadata.annotations.*",
    "spec.priority",
    "spec.dependsOn",
    "spec.startsAt",
    "spec.hold",
    "spec.preemptible",
    "spec.movable",
    "spec.idle*",
    "spec.checkpoint*",
    "spec.nodeLoss*",
    "spec.stop.grace",
    "spec.apps*",
)
"""What only bai itself reads."""

_RESIZE = {"cpu": "cpus", "memory": "memory"}
"""Resource → the KernelSpec field that a provider must be able to change in place."""
_LIMITS = {"pids": "pids", "scratch": "scratch"}


def field_changes(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[Change, ...]:
    """Every leaf that differs, by path; lists count as one value."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return tuple(
        Change(path, _rendered(old.get(path)), _rendered(new.get(path)))
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    )


def _leaves(value: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, item in value.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(item, Mapping) and item:
            yield from _leaves(item, path)
        else:
            yield path, item


def _rendered(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return canonical_json(value)


def is_resize(change: Change, capabilities: Capabilities | None) -> bool:
    """Whether it changes only how much of CPU or memory a running container has, and the provider can do
    that."""
    field = _RESIZE.get(_changed_resource(change))
    return field is not None and change.after is not None and _changes_in_place(field, capabilities)


def forces_replacement(change: Change, capabilities: Capabilities | None) -> bool:
    """Whether a running session must be replaced for it."""
    if any(fnmatchcase(change.path, pattern) for pattern in _NEVER_FORCING) or is_resize(
        change, capabilities
    ):
        return False
    field = _LIMITS.get(_changed_resource(change))
    return not (field is not None and _changes_in_place(field, capabilities))


def _changed_resource(change: Change) -> str:
    parts = change.path.split(".")
    inside = parts[:2] == ["spec", "resources"] or (
        parts[:3] == ["spec", "cluster", "perRole"] and "resources" in parts
    )
    return parts[-1] if inside else ""


def _changes_in_place(field: str, capabilities: Capabilities | None) -> bool:
    return capabilities is not None and field in capabilities.in_place
