"""Ports of pods: the node's runtime connects to one inside of the pod's own network, on its loopback.

One connection is asked for as `v4.channel.k8s.io`: channel 0 is its bytes, 1 why it cannot be had; on each, a
port's number comes first. That what is sent has ended cannot be told. The newer way, many connections in one
(`SPDY/3.1+portforward.k8s.io`), can tell, but runtimes hang up a second later. Here what the port still sends
is waited for until it is silent.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator

from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import api_errors
from providers.kubernetes.api.websocket import CHUNK, WebSocket, open_websocket
from providers.kubernetes.interaction.container_state import require_running
from providers.kubernetes.objects.names import PodRef
from providers.machines.base import Stream
from schemas.problems.errors.kernel import PortRefused
from schemas.problems.text import printable

DATA, ERROR = b"\0", b"\1"
SETTLING = 0.15
"""Seconds in which a port that nobody listens on says so, at least: it is refused at once where the pod is,
and that takes no longer to be told than it took to get there. What is told later ends the connection."""
LINGER = 2.0
"""Seconds of silence after which a connection ends whose other direction has ended."""


def dial(client: ApiClient, pod: PodRef, port: int) -> Stream:
    """Raises NotRunning, PortRefused, ProviderError."""
    began = time.monotonic()
    with api_errors(pod.name):
        require_running(client, pod)
        far = open_websocket(
            client, f"{pod.path}/portforward", [("ports", str(port))], ("v4.channel.k8s.io",)
        )
    near, inner = socket.socketpair()
    relay = _Relay(far, inner)
    relay.start()
    relay.settled.wait(max(SETTLING, time.monotonic() - began))
    if relay.refusal:
        near.close()
        raise PortRefused(provider=NAME, kernel=pod.name, port=port, why=explain_refusal(relay.refusal))
    return near


class _Relay:
    """Copies between a port and a pair of sockets, of which the caller has the other one."""

    def __init__(self, far: WebSocket, inner: socket.socket) -> None:
        self.refusal = ""
        self.settled = threading.Event()
        """The port has said something, or was refused."""
        self._far = far
        self._inner = inner
        self._heard = threading.Event()

    def start(self) -> None:
        for run in (self._receive, self._send):
            threading.Thread(target=run, name="port", daemon=True).start()

    def _receive(self) -> None:
        try:
            for data in self._payloads():
                self._heard.set()
                self._inner.sendall(data)
        except OSError:
            pass
        finally:
            self.settled.set()
            self._far.close()
            with contextlib.suppress(OSError):
                self._inner.shutdown(socket.SHUT_RDWR)

    def _payloads(self) -> Iterator[bytes]:
        """What the port sends. A refusal ends it."""
        heads = {DATA: 2, ERROR: 2}
        while (message := self._far.receive()) is not None:
            channel, data = message[:1], message[1:]
            skipped = min(heads.get(channel, 0), len(data))
            if channel in heads:
                heads[channel] -= skipped
            if channel == ERROR and data[skipped:]:
                self.refusal = data[skipped:].decode(errors="replace")
                return
            if channel == DATA and data[skipped:]:
                self.settled.set()
                yield data[skipped:]

    def _send(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._inner.recv(CHUNK):
                self._far.send(DATA + data)
            while self._heard.wait(LINGER) and not _is_hung_up(self._inner):
                self._heard.clear()
        self._far.leave()


def _is_hung_up(inner: socket.socket) -> bool:
    """Whether the other one of the pair is closed altogether, and not only in one direction."""
    waiting = select.poll()
    waiting.register(inner, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in waiting.poll(0))


def explain_refusal(said: str) -> str:
    """In a sentence, what a runtime tells at length."""
    if "connection refused" in said.lower():
        return "nothing listens on it"
    return printable(" ".join(said.split()))[:300]
