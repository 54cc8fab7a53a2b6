"""SessionTemplate and Sweep: sessions that are alike but for some values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, StringConstraints

from schemas.values.envelope import Flag, Model, ProjectMetadata, Resource, SharedMetadata
from schemas.values.names import Name, Text

ParameterName = Annotated[str, StringConstraints(pattern=r"^[a-z][A-Za-z0-9_]{0,62}$")]
Value = StrictStr | StrictBool | StrictInt | StrictFloat
Number = Annotated[float, Field(strict=True)]
MOST_SESSIONS = 1000
"""Sessions that one sweep may stand for."""


class Parameter(Model):
    """A value that whoever uses the template gives."""

    type: Literal["text", "integer", "number", "boolean"] = "text"
    default: Value | None = None
    """Taken when nobody gives one; without a default, somebody must."""
    choices: tuple[Value, ...] = ()
    """Only these; any when empty."""
    minimum: Number | None = None
    maximum: Number | None = None
    pattern: Text | None = None
    """Of a text: a regular expression that all of it must match."""
    about: Text = ""
    """What it is, for who uses the template."""


class SessionTemplateSpec(Model):
    parameters: Mapping[ParameterName, Parameter] = {}
    session: Mapping[str, Any]
    """The `spec` of a Session. Texts may hold Jinja: `{{ lr }}` is a parameter's value, `name` and `project`
    are the session's own. A text that is nothing but one such expression becomes the value itself, a number
    for instance."""


class SessionTemplate(Resource):
    """A session with gaps, to be filled by `from` of a Session, by a Sweep, or by `bai run --template`."""

    singular = "session template"
    kind: Literal["SessionTemplate"]
    metadata: SharedMetadata
    spec: SessionTemplateSpec


class FromTemplate(Model):
    """Where a session comes from."""

    template: Name
    """A SessionTemplate of the session's project, or one without a project."""
    parameters: Mapping[ParameterName, Value] = {}


class SweepSpec(FromTemplate):
    over: Annotated[
        Mapping[ParameterName, Annotated[tuple[Value, ...], Field(min_length=1)]], Field(min_length=1)
    ]
    """Parameter to its values: a session for every combination, the last parameter running fastest."""
    exclude: tuple[Mapping[ParameterName, Value], ...] = ()
    """Combinations that are left out: each names some of the values."""
    sequential: Flag = False
    """Each session waits for the one before it."""


class Sweep(Resource):
    """One template, many sessions: `<sweep>-1`, `<sweep>-2`, ... with the values as labels."""

    singular = "sweep"
    kind: Literal["Sweep"]
    metadata: ProjectMetadata
    spec: SweepSpec
