"""One SSH connection: made hop by hop, kept alive, and able to connect to unix sockets on the far side."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import threading
import weakref
from typing import Any

import paramiko
from paramiko.common import (
    MSG_CHANNEL_REQUEST,
    MSG_REQUEST_FAILURE,
    MSG_REQUEST_SUCCESS,
    OPEN_FAILED_CONNECT_FAILED,
    cMSG_GLOBAL_REQUEST,
)

from providers.machines.ssh.login import log_in
from providers.machines.ssh.route import Hop, Route
from providers.machines.ssh.signals import signal_number
from providers.machines.ssh.trust import HostKeys
from schemas.problems.errors.node import NodeUnreachable
from schemas.problems.errors.provider import ProviderUnavailable

STREAM_LOCAL = "direct-streamlocal@openssh.com"
LOGIN_TIMEOUT = 30.0
"""Least seconds for a login: hosts look up names meanwhile."""
REST_INTERVAL = 1.0
"""Seconds between looks of a connection's thread while nothing comes."""
MOST_MISSED = 2
"""Questions without an answer after which the far side counts as gone."""

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # else it prints tracebacks of its own


class Transport(paramiko.Transport):
    """paramiko's connection, with three things of OpenSSH that it lacks: channels to unix sockets, exit
    signals, and questions to the far side that must be answered."""

    def __init__(self, sock: Any) -> None:
        self._opening = threading.local()
        self._unanswered = 0
        super().__init__(sock)
        self._handler_table |= {  # type: ignore[attr-defined]
            MSG_REQUEST_SUCCESS: self._sign_of_life,
            MSG_REQUEST_FAILURE: self._sign_of_life,
        }
        self._channel_handler_table = {
            **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
            MSG_CHANNEL_REQUEST: _channel_request,
        }

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
        self._opening.path = path
        try:
            return self.open_channel(STREAM_LOCAL, timeout=timeout)
        finally:
            self._opening.path = None

    def _send_user_message(self, data: paramiko.Message) -> None:
        """paramiko writes the addresses of the kinds of channels that it knows; for this one they are added
        on the way (PROTOCOL of OpenSSH, 2.4: path, reserved string, reserved number)."""
        path = getattr(self._opening, "path", None)
        if path is not None:
            self._opening.path = None
            data.add_string(path)
            data.add_string("")
            data.add_int(0)
        try:
            super()._send_user_message(data)  # type: ignore[misc]
        except EOFError as error:  # So paramiko calls a socket that takes nothing any more.
            raise ConnectionResetError(errno.ECONNRESET, "the connection was lost") from error

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
        if self._unanswered >= MOST_MISSED:
            raise TimeoutError(errno.ETIMEDOUT, "it does not answer any more")  # ends the transport's thread
        self._unanswered += 1
        question = paramiko.Message()
        question.add_byte(cMSG_GLOBAL_REQUEST)
        question.add_string("keepalive@openssh.com")
        question.add_boolean(True)
        self._send_user_message(question)

    def _sign_of_life(self, _message: paramiko.Message) -> None:
        self._unanswered = 0


def _channel_request(channel: paramiko.Channel, message: paramiko.Message) -> None:
    """A command that a signal ended has no exit status; it gets the one that shells give (128 + number)."""
    start = message.packet.tell()
    if message.get_text() == "exit-signal":
        message.get_boolean()
        channel.exit_status = 128 + signal_number(message.get_text())
        channel.status_event.set()
        return
    message.packet.seek(start)
    paramiko.Channel._handle_request(channel, message)  # type: ignore[attr-defined]


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
    if isinstance(error, EOFError):
        return "the connection was closed while logging in"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if "protocol banner" in str(error):
        return "it accepts connections, but no SSH server greets"
    return str(error) or type(error).__name__
