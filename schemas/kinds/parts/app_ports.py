"""Ports of one host by which apps are reached, in place of a name for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema, model_validator

from schemas.kinds.parts.docker_network import PortRange
from schemas.problems.issues import Issue, issues_error, value_error
from schemas.problems.text import format_value
from schemas.values.envelope import Flag, Model, at_least_one_schema
from schemas.values.names import Cidr

MOST_PORTS = 256
"""Of one range: each is a socket that `bai serve` holds."""
PortKind = Literal["http", "tcp"]
_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
HOST_PATTERN = rf"^{_LABEL}(\.{_LABEL}){{0,8}}$"
_HOST = re.compile(HOST_PATTERN.removesuffix("$") + r"\Z")


def _validate_host(value: str) -> str:
    if _HOST.match(value):
        return value
    message = f"{format_value(value)} is neither the name of a host nor an IPv4 address"
    raise value_error(message, "such as gpu.example or 192.0.2.7, in lower case, without a port", "BAI-V033")


def _bounded(span: tuple[int, int]) -> tuple[int, int]:
    if span[1] - span[0] < MOST_PORTS:
        return span
    raise value_error(f"these are more than {MOST_PORTS} ports", "name a smaller range", "BAI-V033")


AppHost = Annotated[
    str, AfterValidator(_validate_host), WithJsonSchema({"type": "string", "pattern": HOST_PATTERN})
]
BoundedRange = Annotated[PortRange, AfterValidator(_bounded)]


class AppPorts(Model):
    """Which ports of which host apps are reached at. `bai serve` listens there, at the address that
    `--apps-listen` names: at all of `http`, and at those of `tcp` that an app has."""

    model_config = ConfigDict(json_schema_extra=at_least_one_schema(http="string", tcp="string"))

    host: AppHost
    """By which clients reach that host: its name or IPv4 address."""
    http: BoundedRange | None = None
    """For apps that speak HTTP or HTTPS, such as 30000-30099."""
    tcp: BoundedRange | None = None
    """For ports with `protocol: tcp`, which have no login: those whose `access` is `public`."""
    sources: Annotated[tuple[Cidr, ...], Field(alias="from")] = ("0.0.0.0/0", "::/0")
    """Networks whose clients may connect to either."""
    tls: Flag = True
    """Whether apps of `http` are at https://."""

    @model_validator(mode="after")
    def _require_disjoint(self) -> AppPorts:
        if self.http is None and self.tcp is None:
            raise issues_error([Issue((), "this names no port", "add http: 30000-30099", "BAI-V034")])
        if self.http is not None and self.tcp is not None and overlap(self.http, self.tcp):
            message = f"{span_text(self.tcp)} and http, {span_text(self.http)}, have ports in common"
            raise issues_error([Issue(("tcp",), message, "let each have ports of its own", "BAI-V050")])
        return self

    @property
    def ranges(self) -> Mapping[PortKind, tuple[int, int]]:
        """Those that there are: first and last."""
        found: Mapping[PortKind, tuple[int, int] | None] = {"http": self.http, "tcp": self.tcp}
        return {kind: span for kind, span in found.items() if span is not None}

    @property
    def scheme(self) -> str:
        """Of apps of `http`."""
        return "https" if self.tls else "http"

    def url_of(self, kind: PortKind, number: int) -> str:
        """Of the app at this port, without a path."""
        return f"{'tcp' if kind == 'tcp' else self.scheme}://{self.host}:{number}"


def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two ranges have a port in common."""
    return one[0] <= other[1] and other[0] <= one[1]


def span_text(span: tuple[int, int]) -> str:
    """As documents have it."""
    return f"{span[0]}-{span[1]}"
