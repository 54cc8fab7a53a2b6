"""The ways to an engine: its socket on the node, over whatever connection the node has; a TCP address with or
without TLS; a docker context of the user that runs bai."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from providers.machines.base import Endpoint, Machine, Stream
from providers.machines.retry import with_backoff
from providers.machines.tls import client_context
from schemas.kinds.parts.docker import Docker, Tls
from schemas.problems.errors.node import TargetRefused
from schemas.problems.errors.plan import SecretMissing
from schemas.problems.errors.provider import InvalidOption, ProviderUnavailable

SOCKET = "/var/run/docker.sock"
PATIENCE = 20.0
"""Seconds for a connection to stand."""
Dial = Callable[[], Stream]


def _no_text() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class TlsCredentials:
    """What gives certificates and a key as PEM, asked when it is connected."""

    ca: Callable[[], str]
    cert: Callable[[], str] = _no_text
    key: Callable[[], str] = _no_text


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """How one engine is reached. `endpoint`: the node, which a context may say otherwise."""

    endpoint: Endpoint
    socket: str = SOCKET
    host: tuple[str, int] | None = None
    """Its own TCP address, in place of the socket."""
    tls: TlsCredentials | None = None
    verify: bool = True
    context: str = ""
    """Whose words these are, when they are a context's."""

    def __str__(self) -> str:
        where = f"{self.host[0]}:{self.host[1]}" if self.host else self.socket
        return f"{where} of docker context {self.context}" if self.context else where


def engine_address(endpoint: Endpoint, options: Docker) -> EngineAddress:
    """From a node's options. Raises InvalidOption."""
    if sum(bool(said) for said in (options.socket, options.host, options.context)) > 1:
        why = "give one of socket, host and context"
        raise InvalidOption(provider="docker", option="host", why=why)
    if options.context:
        return _context_address(endpoint, options.context)
    if options.host:
        return _parse_host(
            EngineAddress(endpoint, tls=_secret_credentials(options.tls, endpoint)), options.host
        )
    return EngineAddress(endpoint, socket=options.socket or SOCKET)


def _secret_credentials(tls: Tls | None, endpoint: Endpoint) -> TlsCredentials | None:
    if tls is None:
        return None
    given = {"ca": tls.ca_from, "cert": tls.cert_from, "key": tls.key_from}
    return TlsCredentials(**{part: partial(endpoint.secret, name) for part, name in given.items() if name})


def _context_address(endpoint: Endpoint, name: str) -> EngineAddress:
    """A context as `docker context create` writes it down."""
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "contexts"
    digest = hashlib.sha256(name.encode()).hexdigest()
    try:
        said = json.loads((folder / "meta" / digest / "meta.json").read_text())["Endpoints"]["docker"]
    except (OSError, ValueError, KeyError, TypeError):
        why = f"there is no docker context {name}"
        hint = "docker context ls shows those of this user"
        raise InvalidOption(provider="docker", option="context", why=why, hint=hint) from None
    files = folder / "tls" / digest / "docker"
    found = {
        part: (files / f"{part}.pem").read_text
        for part in ("ca", "cert", "key")
        if (files / f"{part}.pem").exists()
    }
    tls = TlsCredentials(**found) if "ca" in found else None
    base = EngineAddress(endpoint, tls=tls, verify=not said.get("SkipTLSVerify"), context=name)
    return _parse_host(base, str(said.get("Host", "")))


def _parse_host(base: EngineAddress, host: str) -> EngineAddress:
    """`unix:///path`, `tcp://host:port` or `ssh://user@host:port` of docker."""
    url, port = urlsplit(host), None
    with contextlib.suppress(ValueError):
        port = urlsplit(host).port
    if url.scheme == "unix" and url.path:
        return replace(base, socket=url.path, endpoint=replace(base.endpoint, local=True))
    if url.scheme == "tcp" and url.hostname:
        return replace(base, host=(url.hostname, port or (2376 if base.tls else 2375)))
    if url.scheme == "ssh" and url.hostname:
        said = {"user": url.username, "port": port}
        ssh = base.endpoint.ssh.model_copy(update={k: v for k, v in said.items() if v is not None})
        there = replace(base.endpoint, address=url.hostname, local=False, ssh=ssh)
        return replace(base, endpoint=there)
    raise InvalidOption(provider="docker", option="host", why=f"{host!r} is no address of an engine")


def dialer(address: EngineAddress, machine: Callable[[], Machine]) -> Dial:
    """What connects to the engine; one that is being restarted refuses for a moment. It raises TimeoutError
    and ProviderUnavailable."""
    dial = _dialer(address, machine)
    return lambda: with_backoff(dial, _is_transient)


def _dialer(address: EngineAddress, machine: Callable[[], Machine]) -> Dial:
    if address.host is not None:
        host = address.host
        return lambda: _dial_explained(address, lambda: _dial_tcp(host, _tls_context(address)))
    if address.endpoint.local:
        return lambda: _dial_explained(address, lambda: _dial_unix(address.socket))
    return lambda: machine().dial(address.socket)


def _is_transient(error: ProviderUnavailable) -> bool:
    """A socket that is not there is no engine at all."""
    return isinstance(error, TargetRefused) and "refused" in str(error.fields.get("why"))


def _dial_explained(address: EngineAddress, dial: Dial) -> Stream:
    """Who cannot connect says where to, and what to do."""
    try:
        return dial()
    except TimeoutError:
        raise
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        hint = _remedy(address, error)
        raise TargetRefused(node=address.endpoint.name, target=str(address), why=why, hint=hint) from error


def _remedy(address: EngineAddress, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "may this user use the docker socket (group docker)?"
    if not isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return ""
    start = "is the docker daemon running there? `systemctl start docker` starts it"
    if address.host is not None or address.context or address.socket != SOCKET:
        return start
    other = os.environ.get("DOCKER_HOST", "")
    if other:
        return f"{start}; DOCKER_HOST={other} is not read: where it is right, give it as `docker` of the Node"
    return f"{start}; `docker context ls` shows whether it listens elsewhere, for `docker: {{socket: PATH}}`"


def _tls_context(address: EngineAddress) -> ssl.SSLContext | None:
    if address.tls is None:
        return None
    try:
        trust = client_context(address.tls.ca(), address.tls.cert(), address.tls.key())
    except (OSError, ValueError, SecretMissing) as error:
        why = f"tls: {error}"
        raise TargetRefused(node=address.endpoint.name, target=str(address), why=why) from None
    if not address.verify:
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    return trust


def _dial_unix(path: str) -> Stream:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _closed_on_error(connection):
        connection.settimeout(PATIENCE)
        connection.connect(path)
    return connection


def _dial_tcp(host: tuple[str, int], trust: ssl.SSLContext | None) -> Stream:
    connection = socket.create_connection(host, timeout=PATIENCE)
    with _closed_on_error(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return trust.wrap_socket(connection, server_hostname=host[0]) if trust else connection


@contextlib.contextmanager
def _closed_on_error(connection: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise
