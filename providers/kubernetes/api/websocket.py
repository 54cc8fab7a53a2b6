"""A WebSocket to the API server, for requests whose connection becomes messages both ways.

The protocol is `websockets`'; its own connections for threads hold one lock while they write and before they
take in what was read: when both sides send much, each waits for the other. Here one thread writes, and who
receives reads.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import CONNECTING, OPEN
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.errors import UNAUTHORIZED, refusal_of

OPENING = 30.0
"""Seconds for a connection to be made and taken over."""
PING = 20.0
"""Seconds without a word from us after which one is said: proxies cut what is silent for a minute."""
SILENCE = 60.0
"""Seconds in which the other end has not acknowledged what was sent, repeatedly, until it counts as gone."""
LARGEST = 2**24
"""Bytes of one message."""
AHEAD = 2**18
"""Bytes to send that may wait here."""
CHUNK = 2**16
GOODBYE = 2
"""Seconds that who hangs up waits for an end that does not listen."""
_TCP_INFO = struct.Struct("8B14I")
"""The beginning of Linux' `struct tcp_info`."""


class WebSocket:
    """Open. One thread may receive while others send. Methods raise OSError when the connection breaks."""

    def __init__(self, sock: ssl.SSLSocket, protocol: ClientProtocol) -> None:
        self.subprotocol = str(protocol.subprotocol or "")
        self._socket = sock
        self._protocol = protocol
        self._tls = threading.Lock()
        self._change = threading.Condition()
        self._out = bytearray()
        self._broken: OSError | None = None
        self._closed = False
        self._message: list[bytes] = []
        self._messages: deque[bytes] = deque()
        self._take_in()
        self._writer = threading.Thread(target=self._write, name="websocket", daemon=True)
        self._writer.start()

    def send(self, message: bytes) -> None:
        """Waits while much is on its way."""
        with self._change:
            self._change.wait_for(lambda: len(self._out) < AHEAD or self._gone)
            if self._gone:
                raise self._broken or ConnectionResetError("the connection has ended")
            self._protocol.send_binary(message)
            self._queue()

    def receive(self) -> bytes | None:
        """The next message; None when the other end has closed, or we have."""
        while not self._messages:
            if self._closed or self._protocol.close_rcvd is not None:
                return None
            data = self._read()
            with self._change:
                if data:
                    self._protocol.receive_data(data)
                else:
                    self._protocol.receive_eof()
                self._take_in()
                self._queue()
                # Where nothing can be sent any more, what was said before is still to be heard.
                over = not data or self._protocol.state is not OPEN
                if over and not self._messages and self._protocol.close_rcvd is None and not self._closed:
                    raise self._broken or ConnectionResetError("the connection broke off")
        return self._messages.popleft()

    def leave(self) -> None:
        """Say goodbye and hang up: whoever receives sees the end."""
        with self._change:
            if not self._closed and self._protocol.state is OPEN:
                self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
            self._closed = True
            self._queue()
        self._writer.join()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """For when nobody receives any more."""
        self.leave()
        self._socket.close()

    @property
    def _gone(self) -> bool:
        return self._closed or self._broken is not None or self._protocol.state is not OPEN

    def _take_in(self) -> None:
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
                self._message.append(bytes(event.data))
                if event.fin:
                    self._messages.append(b"".join(self._message))
                    self._message.clear()

    def _queue(self) -> None:
        """What the protocol has to say is left to the writer."""
        self._out += b"".join(self._protocol.data_to_send())
        self._change.notify_all()

    def _write(self) -> None:
        while True:
            with self._change:
                said = self._change.wait_for(lambda: self._out or self._closed or self._broken, PING)
                if not said and self._protocol.state is OPEN:
                    self._protocol.send_ping(b"bai")
                    self._queue()
                data = bytes(self._out)
                self._out.clear()
                if not data and self._gone:
                    return
                self._change.notify_all()
            try:
                self._send_all(data)
            except OSError as error:
                return self._break(error)

    def _break(self, error: OSError) -> None:
        with self._change:
            self._broken = error
            self._change.notify_all()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _send_all(self, data: bytes) -> None:
        rest = memoryview(data)
        left = GOODBYE
        while rest and left:
            try:
                with self._tls:
                    rest = rest[self._socket.send(rest) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                if is_dead(self._socket):
                    raise TimeoutError("the other end no longer answers") from None
                _wait(self._socket, select.POLLOUT, 1.0)
                left -= self._closed

    def _read(self) -> bytes:
        """Empty at the end, and where the connection is broken."""
        while not self._closed:
            try:
                with self._tls:
                    return self._socket.recv(CHUNK)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if not _wait(self._socket, select.POLLIN, PING) and is_dead(self._socket):
                    self._break(TimeoutError("the other end no longer answers"))
            except OSError:
                break
        return b""


def _wait(sock: socket.socket, event: int, seconds: float) -> bool:
    """Whether it has happened, or the connection has broken."""
    waiting = select.poll()
    waiting.register(sock, event)
    return bool(waiting.poll(seconds * 1000))


def is_dead(sock: socket.socket) -> bool:
    """Whether nothing that was sent is acknowledged any more, as the kernel counts: an end that is alive but
    does not read says so, and is waited for."""
    info = _TCP_INFO.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
    retransmits, last_acknowledged = int(info[2]), int(info[8 + 12])
    return retransmits > 1 and last_acknowledged > SILENCE * 1000


def open_websocket(
    client: ApiClient, path: str, query: Sequence[tuple[str, str]], subprotocols: Sequence[str]
) -> WebSocket:
    """Credentials that are not taken are renewed once. Raises ApiRefusal, OSError, ProviderUnavailable."""
    target = path + (f"?{urlencode(query)}" if query else "")
    try:
        return _open_once(client, target, subprotocols)
    except InvalidStatus as error:
        if error.response.status_code != UNAUTHORIZED:
            raise _refusal(error) from None
    client.access.credentials.forget()
    try:
        return _open_once(client, target, subprotocols)
    except InvalidStatus as error:
        raise _refusal(error) from None


def _refusal(error: InvalidStatus) -> Exception:
    return refusal_of(error.response.status_code, bytes(error.response.body or b""))


def _open_once(client: ApiClient, target: str, subprotocols: Sequence[str]) -> WebSocket:
    """Raises InvalidStatus, OSError."""
    uri = "wss://" + client.access.server.removeprefix("https://") + target
    protocol = ClientProtocol(
        parse_uri(uri), subprotocols=[Subprotocol(each) for each in subprotocols], max_size=LARGEST
    )
    host, port = client.host
    plain = socket.create_connection((host, port), OPENING)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = client.tls().wrap_socket(plain, server_hostname=client.access.server_name or host)
        plain = sock
        _shake_hands(sock, protocol, client.authorization())
        sock.setblocking(False)
    except BaseException:
        plain.close()
        raise
    return WebSocket(sock, protocol)


def _shake_hands(sock: ssl.SSLSocket, protocol: ClientProtocol, headers: Mapping[str, Any]) -> None:
    request = protocol.connect()
    request.headers.update(headers)
    protocol.send_request(request)
    sock.sendall(b"".join(protocol.data_to_send()))
    while protocol.state is CONNECTING:
        data = sock.recv(CHUNK)
        if data:
            protocol.receive_data(data)
        else:
            protocol.receive_eof()
        if isinstance(protocol.handshake_exc, InvalidStatus):
            raise protocol.handshake_exc
        if protocol.handshake_exc is not None:
            raise ConnectionResetError(str(protocol.handshake_exc))
