"""`bai serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.loops import app_options as by_url
from bai.cli.loops import connection_options as clients
from bai.cli.loops import loop_options as loops
from bai.cli.loops import proposal_options as changes
from bai.cli.options import Parallel

if TYPE_CHECKING:
    from bai.settings import Settings
    from bai.web.connection_limits import ConnectionLimits

app = new_app()


@app.command()
def serve(
    ctx: typer.Context,
    directory: loops.Directory = None,
    remote: loops.Remote = None,
    ref: loops.Ref = "",
    path: loops.PathInRemote = "",
    mode: loops.ModeOption = loops.Mode.auto,
    interval: loops.Interval = "30s",
    parallel: Parallel = 32,
    node_connections: loops.NodeConnections = 2048,
    listen: clients.Listen = "127.0.0.1:8080",
    access: clients.AccessFile = None,
    webhook_secret: clients.WebhookSecret = "",
    cookie_key: clients.CookieKey = "",
    public_url: clients.PublicUrl = "",
    proposals: changes.Proposals = changes.ProposalMode.off,
    committer: changes.Committer = "",
    forge: changes.ForgeApi = "",
    max_connections: clients.MaxConnections = 512,
    max_connections_per_address: clients.MaxConnectionsPerAddress = 128,
    trusted_proxy: clients.TrustedProxy = None,
    header_timeout: clients.HeaderTimeout = "10s",
    body_timeout: clients.BodyTimeout = "30s",
    idle_timeout: clients.IdleTimeout = "15s",
    max_upload: clients.MaxUpload = "10GiB",
    apps_listen: by_url.AppsListen = "",
    apps_tls: by_url.AppsTls = "internal",
    caddy: by_url.Caddy = None,
    lease: loops.Lease = "15s",
    stuck_after: loops.StuckAfter = "15m",
    prometheus: loops.Prometheus = "",
    demo: clients.Demo = False,
    check: clients.CheckAccess = False,
) -> None:
    """Run the loops of `bai reconcile`, with pages for browsers and an HTTP API that takes orders.

    The API describes itself at /openapi.json. `bai token` makes lines of the file that --access names.
    Where a file says whose commits are followed (`bai --trust FILE`), others are not.
    """
    if check:
        _check(access)
        return
    bounds = clients.connection_limits(
        max_connections, max_connections_per_address, trusted_proxy or (),
        header_timeout, body_timeout, idle_timeout, max_upload,
    )  # fmt: skip
    if demo:
        _demo(listen, bounds, others=bool(directory or remote or access or apps_listen))
        return
    from bai.web.server import Server, ServerSettings

    origin = loops.remote_origin(remote, ref, path, mode)
    settings = _settings(ctx, directory, access if origin is None else None)
    loop_settings = loops.loop_settings(mode, interval, parallel, lease, stuck_after, prometheus)
    allowed = changes.proposal_settings(proposals, committer, forge, remote=origin is not None)
    apps = by_url.app_serving(apps_listen, apps_tls, caddy)
    served = ServerSettings(listen, access, webhook_secret, cookie_key, public_url, bounds, allowed, apps)
    loops.keep_node_connections(node_connections)
    if not Server(settings, origin, served, loop_settings).run():
        raise typer.Exit(1)


def _settings(ctx: typer.Context, directory: Path | None, access: Path | None) -> Settings:
    """`access`: a file that must not lie among the documents. Raises CommandError."""
    settings = loops.with_directory(settings_of(ctx), directory)
    if access is not None:
        clients.require_no_document(access, settings.directory)
    return settings


def _demo(listen: str, bounds: ConnectionLimits, *, others: bool) -> None:
    """Raises CommandError beside options that name something real."""
    from bai.web.demo.serve_demo import serve_demo
    from schemas.problems.errors.command import CommandError

    if others:
        hint = "leave out DIR, --remote, --access and --apps-listen"
        raise CommandError(why="--demo has a cluster of its own", hint=hint)
    if not serve_demo(listen, bounds, typer.echo):
        raise typer.Exit(1)


def _check(access: Path | None) -> None:
    """Raises CannotRead, InvalidRepository with every mistake, CommandError when there is nothing to read."""
    from bai.web.auth.access_file import WatchedAccessFile
    from schemas.problems.errors.command import CommandError

    if access is None:
        raise CommandError(why="--check: there is nothing to read", hint="give --access FILE")
    WatchedAccessFile(access, typer.echo)
    typer.echo(f"{access} says who may do what.")
