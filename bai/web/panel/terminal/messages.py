"""What a page and a server tell each other, as JSON, beside the bytes of a terminal. Pure."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

LONGEST_REASON = 500
_Side = Annotated[int, Field(ge=1, le=1000)]
_Offset = Annotated[int, Field(ge=0, le=2**53)]


class BadMessage(ValueError):
    """This is none of ours."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Opening(_Message):
    """First: a new program, or the main one."""

    kind: Literal["open"]
    kernel: Annotated[str, Field(max_length=50)]
    program: Literal["shell", "attach"]
    rows: _Side
    columns: _Side


class Resuming(_Message):
    """First: a terminal that this login has opened. `known`: bytes of its output that the page has got; None
    where it has lost them."""

    kind: Literal["resume"]
    id: Annotated[str, Field(max_length=100)]
    known: _Offset | None
    rows: _Side
    columns: _Side


class Resize(_Message):
    kind: Literal["resize"]
    rows: _Side
    columns: _Side


class Shown(_Message):
    """So many bytes of the output, since its beginning, are on the screen."""

    kind: Literal["shown"]
    bytes: _Offset


class Leave(_Message):
    """The end, wanted."""

    kind: Literal["leave"]


First = Opening | Resuming
Later = Resize | Shown | Leave
_FIRST: TypeAdapter[First] = TypeAdapter(Annotated[First, Field(discriminator="kind")])
_LATER: TypeAdapter[Later] = TypeAdapter(Annotated[Later, Field(discriminator="kind")])


def read_first(text: str) -> First:
    """Raises BadMessage."""
    try:
        return _FIRST.validate_json(text)
    except ValidationError:
        raise BadMessage from None


def read_later(text: str) -> Later:
    """Raises BadMessage."""
    try:
        return _LATER.validate_json(text)
    except ValidationError:
        raise BadMessage from None


def opened(identifier: str, start: int, end: int, received: int) -> str:
    """Its output comes from `start` on; what is before `end` was written before. `received`: bytes that were
    typed, since its beginning."""
    return json.dumps({"kind": "opened", "id": identifier, "start": start, "end": end, "received": received})


def taken(count: int) -> str:
    """So many of the bytes that were typed, since the beginning, the program has got."""
    return json.dumps({"kind": "taken", "bytes": count})


def ended(code: int | None, why: str) -> str:
    """`why`: what broke it off, empty where the program has ended."""
    return json.dumps({"kind": "ended", "code": code, "why": why[:LONGEST_REASON]})


def refused(why: str) -> str:
    return json.dumps({"kind": "refused", "why": why[:LONGEST_REASON]})
