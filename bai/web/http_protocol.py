"""HTTP as `bai serve` speaks it: uvicorn's, with bounds on what a client may send and how long it may take.

h11 reads the requests, one at a time: it keeps no more of a head than `LARGEST_HEAD`, and looks at a request
that came early only when the one before is answered. What is bounded here beside that: how many connections
there are (`connection_limits`), time from beginning to end for a head, for a body and for an answer to be
taken, the number of headers, and chunks too small for their cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import sys
from http import HTTPStatus
from math import ceil
from typing import Any, cast

import h11
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from bai.web.connection_limits import (
    UPLOAD_STEP,
    Admission,
    ConnectionLimits,
    Connections,
    ConnectionState,
)
from bai.web.request_limits import is_upload
from bai.web.websocket_protocol import BoundedWebSocket, websocket_options

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""What is answered also where there is no room for more."""
LARGEST_HEAD = 16 * 1024
"""Bytes of a request's head."""
MOST_HEADERS = 100
SMALLEST_CHUNK = 16
"""Bytes of a body's chunks, on average: each costs as much as a small request."""
_FREE_CHUNKS = 256
_LINGER_NONE = struct.pack("ii", 1, 0)
_FULL_MESSAGE = "there are too many connections, of this address or in all"


class ServerConfig(uvicorn.Config):
    """How `app` is served, within bounds that all connections share."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits, **options: Any) -> None:
        self.connections = Connections(limits)
        super().__init__(
            app, http=BoundedProtocol, log_level="error", access_log=False, server_header=False,
            proxy_headers=False, timeout_keep_alive=ceil(limits.idle), **websocket_options(), **options,
        )  # fmt: skip


class _BoundedReader(h11.Connection):
    """Reads requests. Raises RemoteProtocolError with the status that is to be answered."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, LARGEST_HEAD)
        self._chunks = self._bytes = 0

    @property
    def body_size(self) -> int:
        """Bytes of the body, as far as it has come."""
        return self._bytes

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
            _check_head(event)
        elif isinstance(event, h11.Data):
            self._chunks += 1
            self._bytes += len(event.data)
            if self._chunks > _FREE_CHUNKS + self._bytes // SMALLEST_CHUNK:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        return event


def _check_head(request: h11.Request) -> None:
    size = len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers)
    if size > LARGEST_HEAD or len(request.headers) > MOST_HEADERS:
        message = f"a request may have {MOST_HEADERS} headers and {LARGEST_HEAD} bytes before its body"
        raise h11.RemoteProtocolError(message, error_status_hint=431)


class BoundedProtocol(H11Protocol):
    """One connection."""

    config: ServerConfig

    def __init__(self, config: ServerConfig, *others: Any, **named: Any) -> None:
        super().__init__(config, *others, **named)
        self.conn = _BoundedReader()
        self._connections, self._limits = config.connections, config.connections.limits
        self._stalled = self._is_probe = False
        self._socket: BoundedWebSocket | None = None
        self._stage: tuple[str, object] = ("", None)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def drop(self) -> None:
        """End it now. What the client did not take is not kept for it by the system either."""
        with contextlib.suppress(OSError):  # It may be closed already.
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
        self.transport.abort()

    # What uvicorn's protocol is told, and we with it.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        admission = self._connections.admit(self)
        if admission is Admission.refused:
            self.drop()
            return
        if admission is Admission.probes:
            self.app, self._is_probe = _probes_only(self.app), True
        self._enter_stage("head", None)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()
        self._unset_keepalive_if_required()

    def _forget(self) -> None:
        self._connections.forget(self)
        if self._timer is not None:
            self._timer.cancel()

    def _should_upgrade_to_ws(self) -> bool:
        return super()._should_upgrade_to_ws() and not self._is_probe

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """For all that is counted, it stays this connection."""
        super().handle_websocket_upgrade(event)
        socket = self.transport.get_protocol()
        assert isinstance(socket, BoundedWebSocket)
        socket.on_stall, socket.on_lost = self._on_socket_stall, self._forget
        self._socket = socket
        self._on_socket_stall(False)

    def _on_socket_stall(self, stalled: bool) -> None:
        self._enter_stage("stalled" if stalled else "answer", self._socket)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._update_stage()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_stage()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = True
        self._update_stage()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled = False
        self._update_stage()

    def send_400_response(self, msg: str) -> None:
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        self._refuse(status, f"this is no request: {error or msg}")

    # Where the connection is, and until when it may be there.

    def _update_stage(self) -> None:
        cycle = self.cycle
        if self._socket is not None:
            return
        if self.transport.is_closing():
            self._enter_stage("end", None)
        elif self._stalled:
            self._enter_stage("stalled", cycle)
        elif self.conn.their_state is h11.SEND_BODY:
            self._enter_stage("body", (cycle, self._upload_steps()))
        elif cycle is not None and not cycle.response_complete:
            self._enter_stage("answer", cycle)
        else:
            self._enter_stage("head" if cycle is None or self.conn.trailing_data[0] else "idle", cycle)

    def _upload_steps(self) -> int:
        """How far a file is that is taken: each step has a deadline of its own. What was refused has none."""
        cycle = self.cycle
        taken = cycle is not None and not cycle.response_complete and is_upload(cast(Scope, cycle.scope))
        return cast(_BoundedReader, self.conn).body_size // UPLOAD_STEP if taken else 0

    def _enter_stage(self, stage: str, cycle: object) -> None:
        """A deadline stands from the beginning of a stage of a request to its end; `cycle`: the request, and
        how far it is."""
        if (stage, cycle) == self._stage:
            return
        self._stage = stage, cycle
        self._connections.set_state(self, _STATE_OF_STAGE[stage])
        if self._timer is not None:
            self._timer.cancel()
        seconds = self._seconds(stage)
        self._timer = self.loop.call_later(seconds, self._on_deadline) if seconds else None

    def _seconds(self, stage: str) -> float:
        limits = self._limits
        return {"head": limits.header, "idle": limits.idle, "answer": 0.0}.get(stage, limits.body)

    def _on_deadline(self) -> None:
        stage = self._stage[0]
        if stage in ("end", "stalled"):
            self.drop()
        elif stage == "body" or (stage == "head" and self.conn.trailing_data[0]):
            self._refuse(408, "the request did not come in time")
        else:
            self.transport.close()
        self._update_stage()

    def _refuse(self, status: int, message: str) -> None:
        """Say so, where an answer is not already on its way, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps({"detail": message}).encode()
            headers = [
                ("content-type", "application/json"), ("content-length", str(len(body))),
                ("connection", "close"), ("cache-control", "no-store"),
            ]  # fmt: skip
            answer = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase)
            for event in (answer, h11.Data(body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None and not self.cycle.response_complete:
            # Whoever makes the answer must not begin with it any more.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


_STATE_OF_STAGE = {
    "head": ConnectionState.waiting,
    "idle": ConnectionState.waiting,
    "body": ConnectionState.slow,
    "stalled": ConnectionState.slow,
    "end": ConnectionState.slow,
    "answer": ConnectionState.answered,
}


def _probes_only(app: ASGIApp) -> ASGIApp:
    """Answers 503 to everything else, and ends with one request."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PROBES:
            headers = {"Retry-After": "2", "Connection": "close"}
            await JSONResponse({"detail": _FULL_MESSAGE}, 503, headers)(scope, receive, send)
            return

        async def last(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        await app(scope, receive, last)

    return answer
