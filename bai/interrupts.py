"""The first Ctrl-C (or SIGTERM) stops cleanly; the second leaves at once: the journal is made for it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

from providers.machines.signals import signal_handlers


@contextlib.contextmanager
def graceful_stop(
    stopping: Callable[[], bool], stop: Callable[[], None], leave: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """`stop` is called by the signal that comes when `stopping` is not true yet, `leave` before the end by
    one that comes when it is. Both run in the main thread, between any two of its instructions."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if not stopping():
            stop()
            return
        leave()
        print("Left at once; the next run finds out what was done.", file=sys.stderr, flush=True)
        os._exit(1)

    with signal_handlers((signal.SIGINT, signal.SIGTERM), on_signal):
        yield
