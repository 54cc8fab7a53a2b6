"""What a command is at, on a terminal, where it takes longer than one likes to wait without a word."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from bai.render.humanize import clean

SHOWN_AFTER = 0.7
"""Seconds for which something goes on before it is told."""
_REDRAWN = 1.0
_ERASE = "\r\x1b[2K"


class WaitingNotice:
    """A line on `stream` while something goes on; nothing is left of it afterwards."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._detail = ""

    @contextlib.contextmanager
    def during(self, what: str) -> Iterator[None]:
        ended, self._detail = threading.Event(), ""
        drawer = threading.Thread(target=self._draw, args=(what, ended), name="bai-waiting", daemon=True)
        drawer.start()
        try:
            yield
        finally:
            ended.set()
            drawer.join()

    def detail(self, what: str) -> None:
        self._detail = what

    def _draw(self, what: str, ended: threading.Event) -> None:
        began, drawn = time.monotonic(), False
        wait = SHOWN_AFTER
        while not ended.wait(wait):
            text = f"{what}: {self._detail}" if self._detail else what
            line = f"... {clean(text)} ({time.monotonic() - began:.0f} s)"
            self._write(f"{_ERASE}{line[: self._width()]}")
            wait, drawn = _REDRAWN, True
        if drawn:
            self._write(_ERASE)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # A terminal that is gone is told nothing.
            self._stream.write(text)
            self._stream.flush()

    def _width(self) -> int:
        try:
            return max(1, os.get_terminal_size(self._stream.fileno()).columns - 1)
        except (OSError, ValueError):
            return 79


def waiting_notice() -> WaitingNotice | None:
    """On standard error; None where nobody sees that."""
    from bai.cli.output import is_terminal

    return WaitingNotice(sys.stderr) if sys.stderr is not None and is_terminal(sys.stderr) else None
