"""A terminal that runs, in two threads: one reads what its program writes and one types, as both may have to
wait.

It goes on when its connection is lost, until its output has nowhere to go. Whoever listens is told in that
thread that there is something new, and asks for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from bai.web.panel.terminal.output_window import OutputWindow
from providers.abilities import TerminalStream
from schemas.problems.errors.base import BaiError

MOST_TYPED = 64 * 1024
"""Bytes that wait for a program to read them, beside one message."""
PIECE = 16 * 1024
"""Bytes of output that are given at a time."""
Listener = Callable[[], None]


@dataclass(frozen=True, slots=True)
class TerminalEnd:
    """How it ended: `code` of the program, where it did; `why` it broke off, or was left."""

    code: int | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class TerminalNews:
    """What a listener has not heard yet. `taken`: bytes that were typed, since the beginning, and reached the
    program; `end`: once there is no more output."""

    piece: bytes
    taken: int
    end: TerminalEnd | None


class LiveTerminal:
    """`on_end` is called once, in a thread of its own, when nothing of it is left, and before
    whoever listens hears of the end."""

    def __init__(self, stream: TerminalStream, on_end: Callable[[TerminalEnd], None]) -> None:
        self._stream, self._on_end = stream, on_end
        self._change = threading.Condition()
        self._output = OutputWindow()
        self._typed: deque[bytes] = deque()
        self._waiting = self._received = self._taken = self._silences = 0
        self._size: tuple[int, int] | None = None
        self._listener: Listener | None = None
        self._closing, self._over = "", False
        self._end: TerminalEnd | None = None
        self._writer = threading.Thread(target=self._write, name="bai-terminal-keys", daemon=True)
        self._reader = threading.Thread(target=self._read, name="bai-terminal", daemon=True)
        self._writer.start()
        self._reader.start()

    # What a connection does. Nothing of it waits.

    def listen(self, listener: Listener, known: int | None) -> tuple[int, int, int]:
        """From now on this one is told, and who was before is told once more. `known`: bytes of output that
        it has; None for none. Gives from where on it is told more, the end of what was written, and how much
        was typed."""
        with self._change:
            before, self._listener = self._listener, listener
            start = self._output.start if known is None else self._output.resume_at(known)
            found = start, self._output.end, self._received
        if before is not None:
            before()
        return found

    def is_heard_by(self, listener: Listener) -> bool:
        return self._listener == listener

    def hang_up(self, listener: Listener) -> int:
        """Nobody listens now. A number for `is_silent_since`; 0 where somebody else does."""
        with self._change:
            if self._listener != listener:
                return 0
            self._listener = None
            self._silences += 1
            return self._silences

    def is_silent_since(self, silence: int) -> bool:
        """Whether nobody has come since that."""
        with self._change:
            return self._listener is None and self._silences == silence

    def news(self, at: int) -> TerminalNews:
        with self._change:
            piece = self._output.piece(at, PIECE)
            over = self._end if at + len(piece) == self._output.end else None
            return TerminalNews(piece, self._taken, over)

    def acknowledge(self, offset: int) -> None:
        with self._change:
            self._output.acknowledge(offset)
            self._change.notify_all()

    def type(self, data: bytes) -> bool:
        """False where too much waits already: once that is less, the listener is told."""
        with self._change:
            if self._waiting >= MOST_TYPED and not self._over and not self._closing:
                return False
            self._typed.append(data)
            self._waiting += len(data)
            self._received += len(data)
            self._change.notify_all()
        return True

    def resize(self, rows: int, columns: int) -> None:
        with self._change:
            self._size = rows, columns
            self._change.notify_all()

    # Its end.

    def close(self, why: str) -> None:
        """Does not wait for the end, which `join` does."""
        with self._change:
            if self._closing or self._over:
                return
            self._closing = why
            self._change.notify_all()
        threading.Thread(target=self._stream.close, name="bai-terminal-end", daemon=True).start()

    def join(self, seconds: float) -> bool:
        """Whether it has come to its end."""
        self._reader.join(seconds)
        return not self._reader.is_alive()

    # Its threads.

    def _read(self) -> None:
        try:
            end = TerminalEnd(self._read_all())
        except (BaiError, OSError) as error:
            end = TerminalEnd(None, str(error))
        self._stream.close()
        with self._change:
            self._over = True
            self._change.notify_all()
        self._writer.join()
        if self._closing:
            end = TerminalEnd(None, self._closing)
        try:
            self._on_end(end)
        finally:
            self._end = end
            self._tell()

    def _read_all(self) -> int | None:
        """The program's exit code."""
        while data := self._stream.read():
            with self._change:
                self._output.append(data)
            self._tell()
            with self._change:
                self._change.wait_for(lambda: self._output.has_room or self._closing)
        return self._stream.exit_code()

    def _write(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._size or self._typed or self._closing or self._over)
                if self._closing or self._over:
                    return
                size, self._size = self._size, None
                data = self._typed.popleft() if self._typed else b""
            try:
                if size:
                    self._stream.resize(*size)
                self._stream.write(data)
            except (BaiError, OSError):
                return  # Whoever reads hears why.
            with self._change:
                self._waiting -= len(data)
                self._taken += len(data)
            self._tell()

    def _tell(self) -> None:
        listener = self._listener
        if listener is not None:
            listener()
