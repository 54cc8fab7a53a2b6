"""Fields that are read and checked although nothing acts on them yet: said as a warning, never silently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from schemas.problems.issues import Issue, Loc
from schemas.values.envelope import Resource

INACTIVE_FIELDS: Mapping[str, tuple[Loc, ...]] = {
    "Cluster": (
        ("spec", "networks", "storage"),
        ("spec", "networks", "data", "rdma"),
        ("spec", "networks", "fabric", "cidr"),
    ),
}


def inactive_field_warnings(resource: Resource) -> Iterator[Issue]:
    """The fields that this document sets and this release does not carry out."""
    for at in INACTIVE_FIELDS.get(resource.kind, ()):
        if _is_set(resource, at):
            yield Issue(
                at, f"{at[-1]} is accepted, but this release does not act on it", code="BAI-V090", key=True
            )


def _is_set(model: BaseModel, at: Loc) -> bool:
    here: object = model
    for step in at:
        if not isinstance(here, BaseModel):
            return False
        name = next((n for n, field in type(here).model_fields.items() if (field.alias or n) == step), None)
        if name is None or name not in here.model_fields_set:
            return False
        here = getattr(here, name)
    return here not in (None, False, ())
