"""The event loop that costs the least here."""

from __future__ import annotations

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # It is not made for every Python.
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
