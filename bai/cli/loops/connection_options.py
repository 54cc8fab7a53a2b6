"""Options of `bai serve` about its clients: what they may take, and how they stay logged in."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.options import parse_seconds

if TYPE_CHECKING:
    from bai.web.auth.networks import Network
    from bai.web.connection_limits import ConnectionLimits

Listen = Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where pages and the API answer.")]
Demo = Annotated[
    bool,
    typer.Option(
        "--demo", help="Show a simulated cluster in which a day of work goes on, and nothing of yours."
    ),
]
WebhookSecret = Annotated[
    str,
    typer.Option(
        "--webhook-secret", metavar="REFERENCE", help="Of messages to /hooks/git: env:NAME or file:/path."
    ),
]
CookieKey = Annotated[
    str,
    typer.Option(
        "--cookie-key",
        metavar="REFERENCE",
        help="Seals logins of browsers, one for all replicas: env:NAME or file:/path (new each time).",
    ),
]
PublicUrl = Annotated[
    str,
    typer.Option(
        "--public-url",
        metavar="URL",
        help="Where browsers reach the pages, as identity providers know it (what a browser asks).",
    ),
]
MaxConnections = Annotated[
    int,
    typer.Option(
        "--max-connections", metavar="N", min=1, help="Connections at a time. Probes are answered beyond."
    ),
]
MaxConnectionsPerAddress = Annotated[
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

AccessFile = Annotated[
    Path | None,
    typer.Option("--access", metavar="FILE", help="Who may do what: tokens, identity providers, proxy."),
]
CheckAccess = Annotated[
    bool, typer.Option("--check", help="Only read what --access names, and say what is wrong in it.")
]
MaxUpload = Annotated[str, typer.Option("--max-upload", metavar="SIZE", help="Of a file that a page sends.")]


def connection_limits(
    connections: int, per_address: int, proxies: Sequence[str], header: str, body: str, idle: str, upload: str
) -> ConnectionLimits:
    """Raises CommandError for what is no network, no time to wait, or no size."""
    from bai.web.connection_limits import ConnectionLimits

    return ConnectionLimits(
        connections, per_address, _parse_networks(proxies), parse_seconds(header, "--header-timeout"),
        parse_seconds(body, "--body-timeout"), parse_seconds(idle, "--idle-timeout"), _parse_size(upload),
    )  # fmt: skip


def require_no_document(access: Path, directory: Path) -> None:
    """Raises CommandError where the access file would be read as a document of the repository that
    `directory` is of."""
    from reconciler.sources.repository_root import find_repository_root
    from schemas.files.sources import is_document_file
    from schemas.problems.errors.command import CommandError

    folder = directory.expanduser().resolve()
    if not folder.is_dir():
        return
    root, file = find_repository_root(folder), access.expanduser().absolute()
    place = file.parent.resolve()
    if not place.is_relative_to(root) or not is_document_file(file.name):
        return
    if any(part.startswith(".") for part in place.relative_to(root).parts):
        return
    raise CommandError(
        why=f"--access {access}: it lies in {root}, where each YAML file is read as a document",
        hint=f"keep it elsewhere, where no commit changes who may do what: mv {shlex.quote(str(access))} ~/",
    )


def _parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    from schemas.problems.errors.command import CommandError

    try:
        return tuple(ipaddress.ip_network(each) for each in texts)
    except ValueError as error:
        raise CommandError(
            why=f"--trusted-proxy: {error}", hint="write 10.1.0.0/16, or one address"
        ) from None


def _parse_size(text: str) -> int:
    from schemas.problems.errors.command import CommandError
    from schemas.values.quantities import parse_memory

    try:
        return parse_memory(text)
    except ValueError as error:
        raise CommandError(why=f"--max-upload: {error}", hint="write 10GiB, or 500MB") from None
