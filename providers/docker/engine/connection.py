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
from providers.machines.tls import trusting
from schemas.kinds.docker import Docker, Tls
from schemas.problems.errors import InvalidOption, ProviderUnavailable, SecretMissing, TargetRefused

SOCKET = "/var/run/docker.sock"
PATIENCE = 20.0
"""Seconds for a connection to stand."""
Dial = Callable[[], Stream]


def _none() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Trusted:
    """What gives certificates and a key as PEM, asked when it is connected."""

    ca: Callable[[], str]
    cert: Callable[[], str] = _none
    key: Callable[[], str] = _none


@dataclass(frozen=True, slots=True)
class Way:
    """How one engine is reached. `endpoint`: the node, which a context may say otherwise."""

    endpoint: Endpoint
    socket: str = SOCKET
    host: tuple[str, int] | None = None
    """Its own TCP address, in place of the socket."""
    tls: Trusted | None = None
    verify: bool = True
    context: str = ""
    """Whose words these are, when they are a context's."""

    def __str__(self) -> str:
        where = f"{self.host[0]}:{self.host[1]}" if self.host else self.socket
        return f"{where} of docker context {self.context}" if self.context else where


def way(endpoint: Endpoint, options: Docker) -> Way:
    """From a node's options. Raises InvalidOption."""
    if sum(bool(said) for said in (options.socket, options.host, options.context)) > 1:
        why = "give one of socket, host and context"
        raise InvalidOption(provider="docker", option="host", why=why)
    if options.context:
        return _context(endpoint, options.context)
    if options.host:
        return _parsed(Way(endpoint, tls=_of_secrets(options.tls, endpoint)), options.host)
    return Way(endpoint, socket=options.socket or SOCKET)


def _of_secrets(tls: Tls | None, endpoint: Endpoint) -> Trusted | None:
    if tls is None:
        return None
    given = {"ca": tls.ca_from, "cert": tls.cert_from, "key": tls.key_from}
    return Trusted(**{part: partial(endpoint.secret, name) for part, name in given.items() if name})


def _context(endpoint: Endpoint, name: str) -> Way:
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
    tls = Trusted(**found) if "ca" in found else None
    base = Way(endpoint, tls=tls, verify=not said.get("SkipTLSVerify"), context=name)
    return _parsed(base, str(said.get("Host", "")))


def _parsed(base: Way, host: str) -> Way:
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


def dialer(way: Way, machine: Callable[[], Machine]) -> Dial:
    """What connects to the engine; one that is being restarted refuses for a moment. It raises TimeoutError
    and ProviderUnavailable."""
    dial = _dialer(way, machine)
    return lambda: with_backoff(dial, _may_pass)


def _dialer(way: Way, machine: Callable[[], Machine]) -> Dial:
    if way.host is not None:
        host = way.host
        return lambda: _named(way, lambda: _tcp(host, _trust(way)))
    if way.endpoint.local:
        return lambda: _named(way, lambda: _local(way.socket))
    return lambda: machine().dial(way.socket)


def _may_pass(error: ProviderUnavailable) -> bool:
    """A socket that is not there is no engine at all."""
    return isinstance(error, TargetRefused) and "refused" in str(error.fields.get("why"))


def _named(way: Way, dial: Dial) -> Stream:
    """Who cannot connect says where to, and what to do."""
    try:
        return dial()
    except TimeoutError:
        raise
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        hint = _what_to_do(way, error)
        raise TargetRefused(node=way.endpoint.name, target=str(way), why=why, hint=hint) from error


def _what_to_do(way: Way, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "may this user use the docker socket (group docker)?"
    if not isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return ""
    start = "is the docker daemon running there? `systemctl start docker` starts it"
    if way.host is not None or way.context or way.socket != SOCKET:
        return start
    other = os.environ.get("DOCKER_HOST", "")
    if other:
        return f"{start}; DOCKER_HOST={other} is not read: where it is right, give it as `docker` of the Node"
    return f"{start}; `docker context ls` shows whether it listens elsewhere, for `docker: {{socket: PATH}}`"


def _trust(way: Way) -> ssl.SSLContext | None:
    if way.tls is None:
        return None
    try:
        trust = trusting(way.tls.ca(), way.tls.cert(), way.tls.key())
    except (OSError, ValueError, SecretMissing) as error:
        why = f"tls: {error}"
        raise TargetRefused(node=way.endpoint.name, target=str(way), why=why) from None
    if not way.verify:
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    return trust


def _local(path: str) -> Stream:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _or_closed(connection):
        connection.settimeout(PATIENCE)
        connection.connect(path)
    return connection


def _tcp(host: tuple[str, int], trust: ssl.SSLContext | None) -> Stream:
    connection = socket.create_connection(host, timeout=PATIENCE)
    with _or_closed(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return trust.wrap_socket(connection, server_hostname=host[0]) if trust else connection


@contextlib.contextmanager
def _or_closed(connection: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise
