"""Options of `bai serve` that bound what clients may take, and what they mean together."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.options import seconds_of

if TYPE_CHECKING:
    from bai.web.auth.networks import Network
    from bai.web.connection_limits import Bounds

MaxConnections = Annotated[
    int,
    typer.Option(
        "--max-connections", metavar="N", min=1, help="Connections at a time. Probes are answered beyond."
    ),
]
PerAddress = Annotated[
    int,
    typer.Option(
        "--max-connections-per-address",
        metavar="N",
        min=1,
        help="Of one IPv4 address or one /64 network, but of no --trusted-proxy.",
    ),
]
TrustedProxy = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-proxy",
        metavar="NETWORK",
        help="A reverse proxy's address or network: its connections are many clients'. May be repeated.",
    ),
]
HeaderTimeout = Annotated[
    str, typer.Option("--header-timeout", metavar="DURATION", help="For a request's head, however it comes.")
]
BodyTimeout = Annotated[
    str,
    typer.Option(
        "--body-timeout",
        metavar="DURATION",
        help="For a request's body, however it comes, and without a client taking what it is sent.",
    ),
]
IdleTimeout = Annotated[
    str, typer.Option("--idle-timeout", metavar="DURATION", help="Between an answer and the next request.")
]


def bounds_of(
    connections: int, per_address: int, proxies: Sequence[str], header: str, body: str, idle: str
) -> Bounds:
    """Raises CommandError for what is no network, or no time to wait."""
    from bai.web.connection_limits import Bounds

    return Bounds(
        connections, per_address, _networks(proxies), seconds_of(header, "--header-timeout"),
        seconds_of(body, "--body-timeout"), seconds_of(idle, "--idle-timeout"),
    )  # fmt: skip


def _networks(texts: Sequence[str]) -> tuple[Network, ...]:
    from schemas.problems.errors import CommandError

    try:
        return tuple(ipaddress.ip_network(each) for each in texts)
    except ValueError as error:
        raise CommandError(
            why=f"--trusted-proxy: {error}", hint="write 10.1.0.0/16, or one address"
        ) from None
