"""How nodes are provisioned: how many at a time, which first, and whether they may be restarted."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema

from schemas.problems.issues import value_error
from schemas.problems.text import format_value
from schemas.values.envelope import Flag, Model
from schemas.values.quantities import Duration

PART_PATTERN = r"^(100|[1-9][0-9]?)%$"
_PART = re.compile(PART_PATTERN.replace("$", r"\Z"))
_MOST = 16_384


def _parse_node_amount(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST:
        return value
    if isinstance(value, str) and _PART.match(value):
        return value
    hint = "write it without quotes" if isinstance(value, str) and value.isdecimal() else ""
    raise value_error(
        f"{format_value(value)} is neither a number of nodes from 1 nor a part such as 25%", hint
    )


Unavailable = Annotated[
    int | str,
    BeforeValidator(_parse_node_amount),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": _MOST},
                {"type": "string", "pattern": PART_PATTERN, "examples": ["25%"]},
            ]
        }
    ),
]


class Provisioning(Model):
    """How the nodes of a cluster are brought to their profiles."""

    max_unavailable: Unavailable = 1
    """Most nodes that are out of use at the same time, for whatever reason: a number, or a part of the
    cluster such as 25%, rounded down and at least one."""
    canary: Flag = True
    """One node is provisioned alone before any other of its profile."""
    reboot: Literal["allowed", "never"] = "allowed"
    """`never`: no node is restarted, whatever its profile says; where a role needs it, provisioning of that
    node fails and says so."""
    drain_grace: Duration | None = None
    """How long a session that leaves has to end by itself; its own checkpoint's or stop's grace when left
    out."""
    parallel: Annotated[int, Strict(), Field(ge=1, le=500)] = 50
    """Nodes that are compared with their profile at the same time."""

    def most_unavailable(self, nodes: int) -> int:
        """How many of this many nodes may be out of use at once, at least one."""
        if isinstance(self.max_unavailable, int):
            return self.max_unavailable
        return max(1, nodes * int(self.max_unavailable.rstrip("%")) // 100)
