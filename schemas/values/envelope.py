"""The envelope that every document shares, and the strict base of every model.

YAML says camelCase, Python says snake_case; only the camelCase name is accepted in a document. Models are
frozen; values are never coerced: `true` is not a text and `"3"` is not a number.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, Strict
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from schemas.values.names import LabelKey, LabelValue, Name, NodeName, Text
from schemas.values.once_per_value import without_derived
from schemas.values.resource_ref import identity_of

API_VERSION = "bai/v1"
PROTECT = "bai/protect"
"""Annotation that guards a resource against deletion when it is "true"."""
SERVICE_LABEL = "bai/service"
"""Label of a service's replica, with its service's name; of nothing that people write."""
GENERATION_LABEL = "bai/generation"
"""Label of a service's replica, with the name of its generation."""
OVERRIDE = "override.bai/"
"""What the annotation begins with that overrides a policy; the policy's name follows."""

Integer = Annotated[int, Strict()]
Count = Annotated[int, Strict(), Field(ge=0, le=1_000_000)]
Positive = Annotated[int, Strict(), Field(ge=1, le=1_000_000)]
Port = Annotated[int, Strict(), Field(ge=1, le=65_535)]
Flag = Annotated[bool, Strict()]


def exactly_one_schema(*names: str) -> JsonDict:
    """The part of a JSON Schema that demands exactly one of these fields, as a text."""
    return {"oneOf": [{"required": [name], "properties": {name: {"type": "string"}}} for name in names]}


def at_least_one_schema(**types: str) -> JsonDict:
    """The part of a JSON Schema that demands at least one of these fields, as what JSON Schema calls it."""
    return {"anyOf": [field_schema(name, kind) for name, kind in types.items()]}


def field_schema(name: str, kind: str) -> JsonDict:
    """The part of a JSON Schema that demands one of a kind, as what JSON Schema calls it."""
    return {"required": [name], "properties": {name: {"type": kind}}}


_model_build_lock = threading.RLock()


class Model(BaseModel):
    """A strict, frozen part of a document.

    What reads a model is built when it is first needed: a command reads a few kinds of all that there are.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        defer_build=True,
        allow_inf_nan=False,
    )

    def __copy__(self) -> Self:
        """What was worked out from the fields (`cached_property`) is not the copy's, whose fields change."""
        return without_derived(super().__copy__(), type(self).__pydantic_fields__)

    def __deepcopy__(self, memo: Any = None) -> Self:
        # It never changes. Pydantic would copy each default that is a model for each document.
        return self

    @classmethod
    def model_rebuild(cls, *, _parent_namespace_depth: int = 2, **options: Any) -> bool | None:
        # Threads of a server may need a model at once; older releases of Pydantic have no lock for that.
        with _model_build_lock:
            return super().model_rebuild(_parent_namespace_depth=_parent_namespace_depth + 1, **options)


class Metadata(Model):
    """Who a resource is."""

    name: Name
    """Unique within the kind (and project); safe as a hostname and path."""
    labels: Mapping[LabelKey, LabelValue] = {}
    """Short values to select by."""
    annotations: Mapping[LabelKey, Text] = {}
    """Notes for people and tools. `bai/protect: "true"` guards against deletion."""


class NodeMetadata(Metadata):
    """Who a node is: its name may be a fully qualified host name."""

    name: NodeName


class ProjectMetadata(Metadata):
    """Who a resource inside a project is."""

    project: Name
    """The project it belongs to."""


class SharedMetadata(Metadata):
    """Who a resource is that may belong to a project."""

    project: Name | None = None
    """The project it belongs to; left out, it belongs to everybody."""


class Resource(Model):
    """One document. Each kind narrows `kind`, `metadata` and `spec`."""

    singular: ClassVar[str] = ""
    """How a sentence calls it."""

    api_version: Literal["bai/v1"]
    """Version of the format."""
    kind: str
    metadata: Metadata
    spec: Any

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def project(self) -> str | None:
        """The project it belongs to; None for a kind or resource outside of projects."""
        return getattr(self.metadata, "project", None)

    @property
    def identity(self) -> str:
        """`Kind/name` or `Kind/project/name`, unique in a repository."""
        return identity_of(self.kind, self.name, self.project)

    @property
    def protected(self) -> bool:
        """Whether its deletion is refused."""
        return self.metadata.annotations.get(PROTECT) == "true"
