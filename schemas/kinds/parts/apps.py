"""Apps: ports of a session that people open by a URL, or programs by a port of the cluster's host."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from schemas.kinds.parts.app_ports import PortKind
from schemas.problems.issues import value_error
from schemas.problems.text import format_value
from schemas.values.envelope import Model

AppAccess = Literal["owner", "operators", "project", "public"]
ACCESS_LEVELS: tuple[AppAccess, ...] = ("owner", "operators", "project", "public")
"""From the fewest to everybody."""
PORT_KINDS: dict[str, PortKind] = {"http": "http", "https": "http", "grpc": "http", "tcp": "tcp"}
"""Protocol of a port → the ports of the AppProxy's host that it may be mapped to."""
_HIGHEST = 65_535


def _check_number(value: Any) -> Any:
    if value == "auto" or (type(value) is int and 1 <= value <= _HIGHEST):
        return value
    raise value_error(
        f"{format_value(value)} is no port", "write auto, or a number such as 30000", "BAI-V033"
    )


MappedNumber = Annotated[
    Literal["auto"] | int,
    BeforeValidator(_check_number),
    WithJsonSchema(
        {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": _HIGHEST}]},
    ),
]


class AppRules(Model):
    """What holds for one app beyond its port."""

    access: AppAccess = "operators"
    """Who may open it: the session's `owner` alone; the owner and the project's `operators`, as terminals
    are; everybody who may look at the `project`; or the `public`, without a login, where the AppProxy's
    `widest` allows that. A port with `protocol: tcp` has no login: it is mapped where this is `public`."""
    port: MappedNumber | None = None
    """The port of the AppProxy's host that it is reached at: this one of the AppProxy's `ports`, or `auto`
    for one that the plan chooses. When it is left out, an app of HTTP has a name of its own where the
    AppProxy has a `url`, and all else is `auto`."""
