"""The section of the role `mig`: GPUs divided in hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, Strict, WithJsonSchema

from schemas.profile.roles.field_types import pattern_validator
from schemas.values.envelope import Count, Flag, Model

PROFILE_PATTERN = r"^[1-7]g\.[1-9][0-9]{0,2}gb([+-](me|gfx|me\.all))*$"

MigProfile = Annotated[
    str,
    pattern_validator(PROFILE_PATTERN, "a MIG profile such as 1g.10gb"),
    WithJsonSchema({"type": "string", "pattern": PROFILE_PATTERN}),
]
Instances = Annotated[int, Strict(), Field(ge=1, le=7)]


class MigLayout(Model):
    """What some of the GPUs are divided into."""

    gpus: tuple[Count, ...] = ()
    """Indexes of the GPUs; all that no other layout names when left out."""
    enabled: Flag = True
    """Without it, these GPUs stay whole."""
    instances: Mapping[MigProfile, Instances] = {}
    """Profile → how many of it on each GPU; made in this order."""


class Mig(Model):
    """GPUs divided in hardware."""

    layouts: Annotated[tuple[MigLayout, ...], Field(min_length=1)]
    """Made again at every boot, for instances do not outlive one."""
