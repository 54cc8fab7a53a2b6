"""A profile's sections as the variables of Ansible roles, and the secrets that they refer to.

The variable of a field is `<role>_<field>`. Values are plain: names inside are those of the models
(snake_case), amounts are integers in their smallest unit (bytes, seconds), what is left out and has no
default is null. A field that ends in `_from` names a secret, not its value: it is no variable; the
provisioner reads it when it runs and hands the value over as `<role>_<field without _from>`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from schemas.profile import NodeProfileSpec
from schemas.profile.versions.driver import default_flavour

SECRET = "_from"
"""How the name of a field ends that refers to a secret."""


def role_variables(spec: NodeProfileSpec) -> dict[str, dict[str, Any]]:
    """Role → variable → value, for the roles that run, in their order. Versions and flavours that follow from
    another section are filled in."""
    found = {role: _section_variables(role, getattr(spec, role)) for role in spec.roles}
    _derive_variables(found)
    return found


def secret_references(spec: NodeProfileSpec) -> dict[str, str]:
    """Variable → reference (`STORE/ENTRY`) of every secret that the roles need."""
    return {
        f"{role}_{field.removesuffix(SECRET)}": reference
        for role in spec.roles
        for field, reference in _fields(getattr(spec, role))
        if field.endswith(SECRET) and reference is not None
    }


def _section_variables(role: str, section: BaseModel) -> dict[str, Any]:
    return {
        f"{role}_{name}": plain_value(value) for name, value in _fields(section) if not name.endswith(SECRET)
    }


def _fields(section: BaseModel) -> Iterator[tuple[str, Any]]:
    for name in type(section).model_fields:
        yield name, getattr(section, name)


def plain_value(value: Any) -> Any:
    """A value of a section as JSON-able data, in the smallest units and with the models' own names."""
    if isinstance(value, BaseModel):
        return {name: plain_value(inner) for name, inner in _fields(value)}
    if isinstance(value, Mapping):
        return {key: plain_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    return value


def _derive_variables(found: dict[str, dict[str, Any]]) -> None:
    """Fills in what follows from another section."""
    driver = found.get("nvidia_driver")
    if driver is None:
        return
    if driver["nvidia_driver_flavour"] is None:
        driver["nvidia_driver_flavour"] = default_flavour(driver["nvidia_driver_version"])
    manager = found.get("nvidia_fabricmanager")
    if manager is not None and manager["nvidia_fabricmanager_version"] is None:
        manager["nvidia_fabricmanager_version"] = driver["nvidia_driver_version"]
