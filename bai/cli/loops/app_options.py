"""Options of `bai serve` about apps of sessions, which browsers open by URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bai.web.apps.proxy.certificates import Certificates
    from bai.web.server import AppServing

AppsListen = Annotated[
    str,
    typer.Option(
        "--apps-listen",
        metavar="HOST:PORT",
        help="Where browsers reach the apps of sessions; an AppProxy names them. `node`: at its node alone.",
    ),
]
AppsTls = Annotated[
    str,
    typer.Option(
        "--apps-tls",
        metavar="WAY",
        help="`internal`: by an authority of its own. CERTIFICATE,KEY: files. `acme` or acme:EMAIL. `off`.",
    ),
]
Caddy = Annotated[
    Path | None,
    typer.Option(
        "--caddy",
        metavar="FILE",
        help="The program that they are reached through (of bai[apps], or on PATH).",
    ),
]


def app_serving(listen: str, tls: str, caddy: Path | None) -> AppServing | None:
    """None where there are to be none. Raises CommandError for what could not be."""
    from bai.web.apps.proxy.app_proxy import AppProxySettings
    from bai.web.apps.proxy.engine import find_engine
    from bai.web.server import BY_NODES, AppServing
    from providers.state_folder import state_folder
    from schemas.problems.errors.command import CommandError

    if not listen:
        if caddy is not None:
            raise CommandError(why="--caddy goes with --apps-listen", hint="say where apps are to be reached")
        return None
    if listen == BY_NODES and tls != "internal":
        hint = "write it in appProxy.tls of the node's profile"
        raise CommandError(why="--apps-tls is for an address, and --apps-listen node has none", hint=hint)
    settings = AppProxySettings(_certificates(tls), find_engine(caddy), state_folder() / "apps")
    return AppServing(listen, settings)


def _certificates(tls: str) -> Certificates | None:
    from bai.web.apps.proxy.certificates import AcmeCertificates, CertificateFiles, InternalCertificates
    from schemas.problems.errors.command import CommandError

    if tls in ("internal", "off"):
        return InternalCertificates() if tls == "internal" else None
    way, _, email = tls.partition(":")
    if way == "acme":
        return AcmeCertificates(email)
    certificate, comma, key = tls.partition(",")
    if not comma:
        hint = "write internal, off, acme, acme:EMAIL, or CERTIFICATE,KEY"
        raise CommandError(why=f"--apps-tls: {tls!r} is no way to have certificates", hint=hint)
    files = Path(certificate), Path(key)
    for file in files:
        if not file.is_file():
            raise CommandError(why=f"--apps-tls: there is no file {file}")
    return CertificateFiles(*(file.absolute() for file in files))
