"""WebSockets as `bai serve` speaks them: uvicorn's on the protocol of `websockets`, within the bounds of all
connections. Whoever takes nothing of what is sent is let go, as with HTTP; so is who answers no ping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

LARGEST_MESSAGE = 64 * 1024
"""Bytes."""
PING = 20.0
"""Seconds between pings, and until one must be answered."""


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One connection, from its upgrade on. `on_stall` hears when the client has something to take, and when
    it has taken all; `on_lost` hears of the end."""

    on_stall: Callable[[bool], None]
    on_lost: Callable[[], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # Nothing is sent before all that was sent is taken: little waits here, and who takes nothing is seen.
        self.transport.set_write_buffer_limits(high=0)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # Who is answered with a refusal is answered: that is no error.

    def pause_writing(self) -> None:
        super().pause_writing()
        self.on_stall(True)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.on_stall(False)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.on_lost()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        # It would wait for what was sent to be taken, by somebody who is gone.
        self.transport.abort()


def websocket_options() -> dict[str, Any]:
    """Of uvicorn's configuration. Nothing is compressed: a small message may be a large text."""
    return {
        "ws": BoundedWebSocket,
        "ws_max_size": LARGEST_MESSAGE,
        "ws_ping_interval": PING,
        "ws_ping_timeout": PING,
        "ws_per_message_deflate": False,
    }
