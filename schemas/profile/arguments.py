"""The sections of a profile as arguments of Ansible roles: types, choices, defaults and what each is for.

What `scripts/gen_roles.py` writes follows from here, so that a field is described once, in its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo

from schemas.profile import NodeProfileSpec
from schemas.profile.variables import SECRET, plain_value
from schemas.values.field_docs import field_description
from schemas.values.quantities import (
    CPU_SCHEMA,
    DURATION_SCHEMA,
    MEMORY_SCHEMA,
    PERCENT_SCHEMA,
    SHARES_SCHEMA,
)

_UNITS: tuple[tuple[Any, str], ...] = (
    (MEMORY_SCHEMA, "bytes"),
    (DURATION_SCHEMA, "seconds"),
    (PERCENT_SCHEMA, "percent"),
    (CPU_SCHEMA, "thousandths of a core"),
    (SHARES_SCHEMA, "thousandths"),
)
_SIMPLE: Mapping[Any, str] = {str: "str", int: "int", bool: "bool", float: "float"}


@dataclass(frozen=True, slots=True)
class RoleArgument:
    """One variable of a role, or one key inside of a variable."""

    name: str
    type: str
    """As Ansible names it: `str`, `int`, `bool`, `float`, `list`, `dict`, `raw`."""
    description: str
    required: bool = False
    default: Any = None
    elements: str = ""
    """Type of a list's items."""
    choices: tuple[Any, ...] = ()
    """With None where it may be left out."""
    unit: str = ""
    keys: tuple[RoleArgument, ...] = ()
    """Of a dict, or of a list's dicts; none where any key may stand."""
    secret: bool = False


def section_models() -> dict[str, type[BaseModel]]:
    """Role → the model of its section."""
    from schemas.profile import ROLES

    return {role: _model(NodeProfileSpec.model_fields[role].annotation) for role in ROLES}


def arguments_of(role: str) -> tuple[RoleArgument, ...]:
    """The variables of a role, in its order. Raises TypeError for a type that no role can be given."""
    section = section_models()[role]
    return tuple(_argument(f"{role}_", section, name, field) for name, field in section.model_fields.items())


def _argument(prefix: str, model: type[BaseModel], name: str, field: FieldInfo) -> RoleArgument:
    secret = name.endswith(SECRET)
    if secret and not prefix:
        raise TypeError(f"{name}: only fields of a section itself may refer to secrets")
    described = " ".join((field_description(model, name) or "").split())
    name = prefix + (name.removesuffix(SECRET) if secret else name)
    if secret:
        return RoleArgument(name, "str", described, secret=True)
    shape = _argument_shape(field.annotation, name, tuple(field.metadata))
    required = field.is_required()
    default = None if required else plain_value(field.get_default(call_default_factory=True))
    return RoleArgument(name, description=described, required=required, default=default, **shape)


def _argument_shape(annotation: Any, name: str, metadata: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Type, items, choices, unit and keys of an annotation."""
    annotation, metadata, optional = _unwrap_annotation(annotation, metadata)
    unit = _unit(metadata)
    origin = get_origin(annotation)
    if annotation in _SIMPLE:
        return {"type": _SIMPLE[annotation], "unit": unit}
    if origin is Literal:
        choices = get_args(annotation)
        kind = _SIMPLE[type(choices[0])]
        return {"type": kind, "choices": (*choices, None) if optional else choices}
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {"type": "dict", "keys": _nested_arguments(annotation)}
    if origin is tuple:
        inner = _argument_shape(get_args(annotation)[0], name)
        return {"type": "list", "elements": inner.pop("type"), **inner}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "dict"}
    if origin in (Union, UnionType) or annotation is Any:
        return {"type": "raw"}
    raise TypeError(f"{name}: a role cannot be given {annotation!r}")


def _nested_arguments(model: type[BaseModel]) -> tuple[RoleArgument, ...]:
    return tuple(_argument("", model, name, field) for name, field in model.model_fields.items())


def _unwrap_annotation(annotation: Any, metadata: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], bool]:
    """An annotation without `Annotated` and without `None`, what it was annotated with, and whether None was
    among its choices."""
    optional = False
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata += tuple(more)
            continue
        if get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation):
            optional = True
            rest = tuple(one for one in get_args(annotation) if one is not NoneType)
            annotation = rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007
            continue
        return annotation, metadata, optional


def _unit(metadata: tuple[Any, ...]) -> str:
    schemas = [item.json_schema for item in metadata if isinstance(item, WithJsonSchema)]
    return next((unit for schema, unit in _UNITS if schema in schemas), "")


def _model(annotation: Any) -> type[BaseModel]:
    bare = _unwrap_annotation(annotation, ())[0]
    assert isinstance(bare, type) and issubclass(bare, BaseModel)
    return bare
