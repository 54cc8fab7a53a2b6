"""Apps by URL, put together: Caddy, the gate that it asks, and the ways to kernels."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bai.web.apps.proxy.caddy_config import ProxyConfig, caddy_config
from bai.web.apps.proxy.caddy_process import CaddyProcess
from bai.web.apps.proxy.certificates import AcmeCertificates, CertificateFiles, Certificates
from bai.web.apps.proxy.gate_server import GateServer, unix_socket
from bai.web.apps.proxy.ports.listeners import HeldPorts
from bai.web.apps.proxy.ports.sites import PortSite
from bai.web.apps.proxy.private_folder import private_folder
from bai.web.apps.proxy.tunnels import Dial, Tunnels

if TYPE_CHECKING:
    from starlette.types import ASGIApp

GATE_SOCKET, ENTRY_SOCKET = "gate", "entry"


@dataclass(frozen=True, slots=True)
class PortRangeSite:
    """A host whose ports, from the `first` to the `last`, are those of apps of HTTP, at `scheme`; `networks`:
    whose clients may connect."""

    host: str
    scheme: str
    networks: tuple[str, ...]
    first: int
    last: int

    @property
    def numbers(self) -> range:
        return range(self.first, self.last + 1)


@dataclass(frozen=True, slots=True)
class AppProxySettings:
    """`certificates` None: whoever is in front ends TLS, or nobody. `storage`: a folder for certificates and
    keys."""

    certificates: Certificates | None
    engine: Path
    storage: Path


class AppProxyServer:
    """From `start` to `close`. `urls`: of apps (`https://*.apps.example`). `listener`: the socket at which
    browsers ask, which stays the caller's; mapped ports are at its address; None where they come in by nodes
    alone. `make_gate` is given what knows the ways to kernels' ports, and makes what answers Caddy; `dial`
    connects to a kernel's port. `say` is given lines for the log.

    `entry`: the unix socket that proxies of nodes are led to; `folder`: this process's alone, until `close`.
    """

    def __init__(
        self,
        settings: AppProxySettings,
        urls: Iterable[str],
        listener: socket.socket | None,
        make_gate: Callable[[Tunnels], ASGIApp],
        dial: Dial,
        say: Callable[[str], None],
    ) -> None:
        self._ending = contextlib.ExitStack()
        with contextlib.ExitStack() as begun:
            self.folder = folder = begun.enter_context(private_folder())
            self.tunnels = Tunnels(folder, dial, say)
            begun.callback(self.tunnels.close)
            gate, gate_socket = make_gate(self.tunnels), folder / GATE_SOCKET
            wanted = settings.certificates if listener is not None else None
            self._gate = GateServer(gate, gate_socket, permission=isinstance(wanted, AcmeCertificates))
            begun.callback(self._gate.close)
            settings.storage.mkdir(mode=0o700, parents=True, exist_ok=True)
            certificates = _with_permission(wanted, self._gate.permission_url, listener)
            self.entry = folder / ENTRY_SOCKET
            entry = begun.enter_context(unix_socket(self.entry))
            self._listeners = [each.fileno() for each in (listener, entry) if each is not None]
            self._config = ProxyConfig(
                f"fd/{listener.fileno()}" if listener is not None else "", tuple(urls), certificates,
                gate_socket, settings.storage, f"fd/{entry.fileno()}",
            )  # fmt: skip
            self._held = HeldPorts(listener.getsockname()[0] if listener is not None else "", say)
            begun.callback(self._held.close_others, ())
            config = caddy_config(self._config)
            stamp = _stamp(certificates)
            self.caddy = CaddyProcess(settings.engine, config, folder, self._listeners, say, stamp)
            begun.callback(self.caddy.close)
            self._ending = begun.pop_all()

    def start(self) -> None:
        """Raises CommandError where Caddy does not start."""
        self._gate.start()
        self.caddy.start()

    @property
    def failures(self) -> Mapping[int, str]:
        """Ports that cannot be had to why."""
        return self._held.failures

    def serve(self, urls: Iterable[str], sites: Sequence[PortRangeSite] = ()) -> None:
        """Apps are at these URLs and ports from now on, and files of certificates are read again that have
        changed."""
        wanted = {number for site in sites for number in site.numbers}
        held = self._held.hold(wanted)
        ports = tuple(_port_site(site, held) for site in sites)
        config = replace(self._config, urls=tuple(urls), ports=ports)
        # Only these: the next Caddy may begin before the others are closed, or after.
        listeners = [*self._listeners, *held.values()]
        if self.caddy.configure(caddy_config(config), _stamp(config.certificates), listeners):
            self._config = config
            self._held.close_others(wanted)

    def close(self) -> None:
        self._ending.close()


def _port_site(site: PortRangeSite, held: Mapping[int, int]) -> PortSite:
    listen = tuple(f"fd/{held[number]}" for number in site.numbers if number in held)
    return PortSite(site.host, site.scheme, site.networks, listen)


def _stamp(certificates: Certificates | None) -> str:
    """Another one when files of certificates are others."""
    if not isinstance(certificates, CertificateFiles):
        return ""
    found = []
    for file in (certificates.certificate, certificates.key):
        try:
            seen = file.stat()
        except OSError as error:
            found.append(str(error.errno))
        else:
            found.append(f"{seen.st_ino} {seen.st_mtime_ns} {seen.st_size}")
    return ", ".join(found)


def _with_permission(
    certificates: Certificates | None, permission: str, listener: socket.socket | None
) -> Certificates | None:
    if not isinstance(certificates, AcmeCertificates) or listener is None:
        return certificates
    return replace(certificates, permission=permission, port=listener.getsockname()[1])
