"""How the containers of a cluster's sessions are connected: part of the options of the docker provider."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from schemas.values.envelope import Model

_RANGE = re.compile(r"([1-9][0-9]{3,4})-([1-9][0-9]{3,4})\Z", re.ASCII)
_LOWEST, _HIGHEST = 1024, 65_535


def _parse_span(value: object) -> object:
    if isinstance(value, tuple):  # already read
        return value
    found = _RANGE.match(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("a range of ports is a text such as 20000-29999")
    first, last = int(found[1]), int(found[2])
    if not _LOWEST <= first <= last <= _HIGHEST:
        raise ValueError(f"ports from {_LOWEST} to {_HIGHEST}, the lower one first")
    return first, last


def _format_span(span: tuple[int, int]) -> str:
    return f"{span[0]}-{span[1]}"


PortRange = Annotated[
    tuple[int, int],
    BeforeValidator(_parse_span),
    PlainSerializer(_format_span, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^[1-9][0-9]{3,4}-[1-9][0-9]{3,4}$"}),
]


class NetworkRules(Model):
    """How containers are connected."""

    network: Literal["auto", "overlay", "host"] = "auto"
    """Of sessions on several nodes. `overlay`: a network of their own over a Docker Swarm; `host`: their
    nodes' network, on assigned ports; `auto`: overlay where the nodes are in one swarm and no RDMA is used,
    else host. Sessions on one node have a bridge of their own."""
    ports: PortRange = (20_000, 29_999)
    """Ports of the nodes from which sessions are given some: keep them free of other services."""
