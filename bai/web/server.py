"""`bai serve`: loops in threads, the API in front of them, and a clean end."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bai.settings import Settings
from schemas.values.naturals import parse_natural

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from bai.controller.document_sources import RemoteOrigin
    from bai.controller.loop_threads import LoopSettings
    from bai.web.apps.proxy.app_proxy import AppProxySettings
    from bai.web.auth.roles import Access
    from bai.web.cluster_loops import ClusterLoops, ServedCluster
    from bai.web.connection_limits import ConnectionLimits
    from bai.web.panel.proposals.settings import ProposalSettings
    from reconciler.gitops.webhook_verifier import WebhookVerifier
    from reconciler.values.apps.app import App

SHUTDOWN_TIMEOUT = 60.0
"""Seconds in which what a loop has begun comes to its end."""
LEAST_COOKIE_SECRET = 32
"""Characters."""
BY_NODES = "node"
"""In place of an address: apps are reached at nodes alone."""
RESERVED_FILES = 256
"""Files that are kept free for everything but connections."""


@dataclass(frozen=True, slots=True)
class AppServing:
    """Where browsers reach apps of sessions, and how. `listen`: an address, or BY_NODES."""

    listen: str
    settings: AppProxySettings


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the API is reached, by whom, and what they may take."""

    listen: str
    access: Path | None
    webhook_secret: str
    cookie_key: str
    public_url: str
    limits: ConnectionLimits
    proposals: ProposalSettings
    apps: AppServing | None = None


class Server:
    """Raises BaiError when a cluster cannot be opened, or an option says nothing sensible."""

    def __init__(
        self,
        settings: Settings,
        remote: RemoteOrigin | None,
        server_settings: ServerSettings,
        loop_settings: LoopSettings,
    ) -> None:
        from bai.tracing import tracer_from_environment
        from bai.web.cluster_loops import ClusterLoops
        from bai.web.connection_limits import PROBE_RESERVE
        from bai.web.panel.options import PanelOptions
        from reconciler.controller.standby import StandbyFollower

        self._access, self._verifier = _open_access(server_settings), _webhook_verifier(server_settings)
        self._options = PanelOptions(
            _cookie_secret(server_settings.cookie_key), _public_url(server_settings.public_url),
            server_settings.proposals, server_settings.limits.upload,
        )  # fmt: skip
        self._limits, self._apps = server_settings.limits, server_settings.apps
        _raise_file_limit(self._limits.connections + PROBE_RESERVE + RESERVED_FILES + _app_files(self._apps))
        self._socket = open_socket(server_settings.listen)
        self._app_socket = (
            open_socket(self._apps.listen, "--apps-listen", "apps are at ")
            if self._apps is not None and self._apps.listen != BY_NODES
            else None
        )
        self._tracer = tracer_from_environment(os.environ)
        self._loops = ClusterLoops(loop_settings.stuck_after, [self._tracer] if self._tracer else [])
        self._lease = loop_settings.lease
        for loop in loop_settings.open_loops(settings, remote):
            loop.stand_by = StandbyFollower(loop, self._loops.publish_pass).follow
            self._loops.add(loop)

    @property
    def clusters(self) -> Mapping[str, ServedCluster]:
        return self._loops.clusters

    @property
    def address(self) -> str:
        """Host and port."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def run(self) -> bool:
        """Until a signal says stop; False when something was left undone."""
        import uvicorn

        from bai.controller.dispatchers import running_dispatchers
        from bai.controller.leaders import leader_election
        from bai.controller.log_line import log_line
        from bai.controller.loop_threads import halt_on_signal
        from bai.web.app import create_app
        from bai.web.http_protocol import ServerConfig

        app = create_app(self._loops, self._access, self._verifier, self._options)
        server = uvicorn.Server(ServerConfig(app, self._limits, timeout_graceful_shutdown=5))
        ended = False
        try:
            loops = [cluster.loop for cluster in self._loops.clusters.values()]

            def end_server() -> None:
                server.should_exit = True

            with (
                # A signal may come before uvicorn hears it, and uvicorn raises the one that ended it once
                # more, which must not end what follows.
                halt_on_signal(loops, end_server),
                leader_election(loops, self._lease),
                running_dispatchers(loops) as dispatchers,
                self._served_apps(app),
            ):
                for name, dispatcher in dispatchers.items():
                    self._loops.clusters[name].dispatcher = dispatcher
                self._loops.start()
                try:
                    with _monitored(server, self._loops):
                        server.run([self._socket])
                finally:
                    app.state.terminals.close()
                    self._loops.halt()
                    ended = self._loops.join(SHUTDOWN_TIMEOUT)
        finally:
            self._loops.close()
            if self._tracer is not None:
                self._tracer.close()
            if self._app_socket is not None:
                self._app_socket.close()
        log_line("", "stopped")
        return server.started and ended and not self._loops.broken

    @contextlib.contextmanager
    def _served_apps(self, app: FastAPI) -> Iterator[None]:
        """Raises CommandError where they cannot be."""
        if self._apps is None:
            yield
            return
        from bai.controller.log_line import log_line
        from bai.web.apps.gate import create_gate
        from bai.web.apps.served_apps import ServedApps

        def make_gate(address_of: Callable[[App], str]) -> ASGIApp:
            return create_gate(
                self._loops, self._access, app.state.panel.sealer, self._options.public_url, address_of
            )

        apps = ServedApps(
            self._apps.settings, self._app_socket, self._loops, make_gate, lambda line: log_line("apps", line)
        )
        try:
            apps.start()
            yield
        finally:
            apps.close()


@contextlib.contextmanager
def _monitored(server: uvicorn.Server, loops: ClusterLoops) -> Iterator[None]:
    """Whoever started us hears when requests are answered; a loop that breaks ends the server."""
    from bai.controller.systemd import systemd_watchdog

    over = threading.Event()

    def run() -> None:
        while not server.started and not over.wait(0.05):
            pass
        with systemd_watchdog(loops.stuck_reason):
            while not over.wait(1.0):
                if loops.broken:
                    server.should_exit = True

    thread = threading.Thread(target=run, name="bai-monitor", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def open_socket(listen: str, option: str = "--listen", told: str = "answers at http://") -> socket.socket:
    """Raises CommandError where nothing can listen."""
    from bai.controller.log_line import log_line
    from bai.web.apps.proxy.ports.listeners import new_listener
    from schemas.problems.errors.command import CommandError

    host, _, port = listen.rpartition(":")
    number = parse_natural(port, 65_535)
    if number is None:
        raise CommandError(
            why=f"{option}: {listen!r} is no address", hint="write 127.0.0.1:8080 or [::]:8080"
        )
    host = host.strip("[]") or "127.0.0.1"
    try:
        found = new_listener(host, number)
    except OSError as error:
        raise CommandError(why=f"{option} {listen}: {_os_error_text(error)}") from None
    log_line("", f"{told}{listen.rpartition(':')[0] or host}:{found.getsockname()[1]}")
    return found


def _app_files(apps: AppServing | None) -> int:
    """Files that ways to apps may have open."""
    if apps is None:
        return 0
    from bai.web.apps.proxy.ports.tcp_ports import MOST_TCP
    from bai.web.apps.proxy.tunnels import OPEN_FILES
    from schemas.kinds.parts.app_ports import MOST_PORTS

    return OPEN_FILES + 2 * MOST_TCP + 2 * MOST_PORTS


def _raise_file_limit(wanted: int) -> None:
    """Have so many files open at a time. Raises CommandError where that cannot be."""
    import resource

    from schemas.problems.errors.command import CommandError

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):
        raise CommandError(
            why=f"--max-connections: they need {wanted} open files, and this process may have {soft}",
            hint="raise `ulimit -n` (LimitNOFILE= of a systemd unit), or allow fewer connections",
        ) from None


def _os_error_text(error: OSError) -> str:
    """Without the address, which Python adds to what the system says."""
    known = error.errno is not None and not isinstance(error, socket.gaierror)
    return os.strerror(error.errno or 0).lower() if known else str(error.strerror or error)


def _open_access(server_settings: ServerSettings) -> Access:
    from bai.controller.log_line import log_line
    from bai.web.auth.roles import StaticAccess

    if server_settings.access is None:
        log_line("", "no --access: nobody may read anything but /healthz and /readyz")
        return StaticAccess()
    from bai.web.auth.access_file import WatchedAccessFile

    return WatchedAccessFile(server_settings.access, lambda line: log_line("", line))


def _webhook_verifier(server_settings: ServerSettings) -> WebhookVerifier | None:
    from reconciler.gitops.webhook_verifier import WebhookVerifier
    from reconciler.secrets.operator_values import resolve_reference

    return (
        WebhookVerifier(resolve_reference(server_settings.webhook_secret).strip())
        if server_settings.webhook_secret
        else None
    )


def _cookie_secret(reference: str) -> str:
    """Empty where none is named. Raises CommandError for one that could be guessed, SecretError."""
    from reconciler.secrets.operator_values import resolve_reference
    from schemas.problems.errors.command import CommandError

    found = resolve_reference(reference).strip() if reference else ""
    if reference and len(found) < LEAST_COOKIE_SECRET:
        raise CommandError(
            why=f"--cookie-key: {reference} has fewer than {LEAST_COOKIE_SECRET} characters",
            hint="`openssl rand -hex 32` makes one",
        )
    return found


def _public_url(url: str) -> str:
    """Raises CommandError for what is no address of a server."""
    from bai.web.panel.login.public_address import check_public_url
    from schemas.problems.errors.command import CommandError

    try:
        return url and check_public_url(url)
    except ValueError as error:
        raise CommandError(why=f"--public-url: {error}", hint="write https://panel.example") from None
