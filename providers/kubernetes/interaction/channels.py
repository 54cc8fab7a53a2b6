"""The channels of a command, a terminal or a port in a pod: messages of one connection, each with its
channel's number first. Kubernetes calls this `v5.channel.k8s.io`, and `v4` where an input cannot be ended.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence

from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import ApiRefusal
from providers.kubernetes.api.websocket import CHUNK, WebSocket, open_websocket
from providers.kubernetes.objects.names import PodRef
from schemas.problems.errors.kernel import NotRunning
from schemas.problems.errors.provider import ProviderError

STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
_CLOSE = 255
"""Before the number of a channel that ends."""
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
_LONGEST_STATUS = 2**16
_ENDED = "container not found"


class Channels:
    """Of one command or terminal, as a `terminal.RemoteEnd`. Methods raise OSError when it breaks."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.status = b""
        """The `Status` that ends it, as JSON; empty before."""
        self.leave, self.close = socket.leave, socket.close

    def send(self, data: bytes) -> None:
        for start in range(0, len(data), CHUNK):
            self._socket.send(bytes([STDIN]) + data[start : start + CHUNK])

    def end(self) -> None:
        """There is no more input; output still comes."""
        with contextlib.suppress(OSError):
            self._socket.send(bytes([_CLOSE, STDIN]))

    def resize(self, rows: int, columns: int) -> None:
        self._socket.send(bytes([RESIZE]) + json.dumps({"Width": columns, "Height": rows}).encode())

    def _receive(self) -> bytes | None:
        """Once its end has been told, it is no matter how the connection ends: who has not read all that was
        typed resets it."""
        try:
            return self._socket.receive()
        except OSError:
            if not _is_whole(self.status):
                raise
            return None

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Pieces of output, each with `STDOUT` or `STDERR`, until the end or until we hang up."""
        while (message := self._receive()) is not None:
            number, data = message[:1], message[1:]
            if number == bytes([STATUS]):
                self.status = (self.status + data)[:_LONGEST_STATUS]
            elif number in (bytes([STDOUT]), bytes([STDERR])) and data:
                yield number[0], data


def _is_whole(status: bytes) -> bool:
    try:
        return isinstance(json.loads(status), dict)
    except ValueError:
        return False


def open_channels(
    client: ApiClient, pod: PodRef, verb: str, command: Sequence[str] = (), *, typed: bool, tty: bool
) -> Channels:
    """`verb`: `exec` or `attach`. Raises NotRunning, ProviderError, ApiRefusal, OSError."""
    query = [("container", pod.container), ("stdout", "true")]
    query += [("stderr", "true")] if not tty else [("tty", "true")]
    query += [("stdin", "true")] if typed else []
    query += [("command", word) for word in command]
    try:
        socket = open_websocket(client, f"{pod.path}/{verb}", query, (V5, V4))
    except ApiRefusal as refusal:
        if refusal.message.startswith(_ENDED):  # The kubelet knows that before the pod tells of it.
            raise NotRunning(provider=NAME, kernel=pod.name) from None
        raise
    if typed and not tty and socket.subprotocol != V5:
        socket.close()
        why = f"its API server ({socket.subprotocol or 'no'} channels) cannot tell a command that input ends"
        raise ProviderError(provider=NAME, why=why, hint="Kubernetes 1.30 and newer can; or give it no input")
    return Channels(socket)
