"""One SSH connection: made hop by hop, kept alive, and able to connect to unix sockets on the far side."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import weakref
from typing import TYPE_CHECKING, Any

import paramiko
from paramiko.common import OPEN_FAILED_CONNECT_FAILED

from providers.machines.ssh.login import log_in
from providers.machines.ssh.packets import OpenSshPacketizer, sign_of_life_request, unix_socket_kind
from providers.machines.ssh.trust import HostKeys
from schemas.problems.errors.node import NodeUnreachable
from schemas.problems.errors.provider import ProviderUnavailable

if TYPE_CHECKING:
    from providers.machines.ssh.route import Hop, Route

LOGIN_TIMEOUT = 30.0
"""Least seconds for a login: hosts look up names meanwhile."""
REST_INTERVAL = 1.0
"""Seconds between looks of a connection's thread while nothing comes."""
MOST_MISSED = 2
"""Questions without an answer after which the far side counts as gone."""

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # else it prints tracebacks of its own


class Transport(paramiko.Transport):
    """paramiko's connection, with OpenSSH's channels to unix sockets, exit signals, and questions to the far
    side that must be answered."""

    packetizer: OpenSshPacketizer

    def __init__(self, sock: Any) -> None:
        super().__init__(sock, packetizer_class=OpenSshPacketizer)
        self._ended_by: Exception | None = None

    def get_exception(self) -> Exception | None:
        """Why it ended, for everybody who was using it: paramiko tells the first who asks."""
        found: Exception | None = super().get_exception()
        if found is not None and not isinstance(found, paramiko.ChannelException):
            self._ended_by = found
        return found or self._ended_by

    def run(self) -> None:
        """Last of all it closes its socket: behind a jump host that may fail as in `OpenSshPacketizer.close`,
        where another thread has just begun to close the connection."""
        with contextlib.suppress(OSError, paramiko.SSHException):
            super().run()

    # channels

    def open_channel(self, *args: Any, **kwargs: Any) -> paramiko.Channel:
        """Raises ChannelException when the far side refuses, SSHException when the connection is broken."""
        try:
            return super().open_channel(*args, **kwargs)
        except paramiko.ChannelException:
            raise
        except paramiko.SSHException as error:
            # When several are refused at once, paramiko has the reason for one of them only.
            if self.is_active() and "Unable to open channel" in str(error):
                raise paramiko.ChannelException(OPEN_FAILED_CONNECT_FAILED, "Connect failed") from error
            raise

    def open_unix(self, path: str, timeout: float) -> paramiko.Channel:
        """Raises ChannelException when the far side refuses, SSHException."""
        return self.open_channel(unix_socket_kind(path), timeout=timeout)

    # life

    def rest(self) -> None:
        """Look up less often: paramiko's thread wakes ten times a second to see whether it is to end."""
        self.sock.settimeout(REST_INTERVAL)

    def close(self) -> None:
        if self.is_active():
            # Wakes the thread that waits for the far side, and which is waited for.
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                self.sock.shutdown(socket.SHUT_RDWR)
        super().close()

    def keep_alive(self, seconds: float) -> None:
        """Ask the far side for a sign of life when it is silent for so long; without any it is given up."""
        here = weakref.ref(self)

        def ask() -> None:
            if (transport := here()) is not None:
                transport._ask_sign_of_life()

        self.packetizer.set_keepalive(seconds, ask)

    def _ask_sign_of_life(self) -> None:
        if self.packetizer.unanswered >= MOST_MISSED:
            raise TimeoutError(errno.ETIMEDOUT, "it does not answer any more")  # ends the transport's thread
        self.packetizer.unanswered += 1
        if self.clear_to_send.is_set():  # Nothing else may be said while keys are exchanged.
            self.packetizer.send_message(sign_of_life_request())


def was_refused(channel: paramiko.Channel) -> bool:
    """Whether the far side said no to what was asked for on it, so that nothing was done."""
    transport = channel.get_transport()
    return isinstance(transport, Transport) and channel.get_id() in transport.packetizer.refused


class Connection:
    """The transports of all hops, the last of which is the node's."""

    def __init__(self, hops: list[Transport]) -> None:
        self._hops = hops
        self.transport = hops[-1]

    @property
    def alive(self) -> bool:
        return all(each.is_active() for each in self._hops)

    def close(self) -> None:
        for each in reversed(self._hops):
            each.close()


def open_connection(node: str, route: Route) -> Connection:
    """Log in. Raises NodeUnreachable, HostKeyRefused, LoginRefused."""
    hops: list[Transport] = []
    try:
        for hop in (*route.jumps, route.target):
            hops.append(_reach_hop(node, hop, route, hops[-1] if hops else None))
    except BaseException:
        for each in reversed(hops):
            each.close()
        raise
    return Connection(hops)


def _reach_hop(node: str, hop: Hop, route: Route, through: Transport | None) -> Transport:
    trust = HostKeys(node, hop, route)
    transport: Transport | None = None
    try:
        transport = Transport(_socket(hop, route, through))
        transport.banner_timeout = transport.handshake_timeout = route.timeout
        transport.auth_timeout = max(route.timeout, LOGIN_TIMEOUT)
        options = transport.get_security_options()
        options.key_types = trust.prefer(options.key_types)
        transport.start_client(timeout=max(route.timeout, LOGIN_TIMEOUT))
        trust.check(transport.get_remote_server_key())
        log_in(node, hop, transport)
    except BaseException as error:
        if transport is not None:
            transport.close()
        if not isinstance(error, Exception) or isinstance(error, ProviderUnavailable):
            raise
        raise NodeUnreachable(node=node, why=f"{hop.entry}: {_error_text(error, route.timeout)}") from error
    transport.keep_alive(route.keep_alive)
    transport.rest()
    return transport


def _socket(hop: Hop, route: Route, through: Transport | None) -> Any:
    """A socket that notices when nobody acknowledges any more, or a channel of the hop before."""
    if through is not None:
        return through.open_channel("direct-tcpip", (hop.host, hop.port), ("", 0), timeout=route.timeout)
    connection = socket.create_connection((hop.host, hop.port), timeout=route.timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(OSError):
        patience = int(route.keep_alive * (MOST_MISSED + 1) * 1000)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience)
    return connection


def _error_text(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(error, paramiko.ChannelException):
        return f"the jump host refuses: {error.text}"
    if isinstance(error, socket.gaierror):
        return f"the name is not known: {error.strerror}"
    if isinstance(error, EOFError) or isinstance(error.__cause__, EOFError):
        return "the connection was closed while logging in"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if "protocol banner" in str(error):
        return "it accepts connections, but no SSH server greets"
    return str(error) or type(error).__name__
