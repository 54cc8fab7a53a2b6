"""A program's terminal elsewhere as a value (`providers.abilities.TerminalStream`): several threads may use
it at once, and whoever closes it frees them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from providers.machines.terminal import RemoteEnd
from schemas.problems.errors.base import BaiError

T = TypeVar("T")


class RemoteTerminal:
    """Of a far end. `output`: its pieces, which end when `far.leave()` was called. `exit_code`: asked once
    they have ended. `finish`: sees to the program's end where it is to end, and gives back what is held here;
    nobody uses it any more by then. `errors`: turns those of the way there into ProviderErrors."""

    def __init__(
        self,
        far: RemoteEnd,
        output: Iterator[bytes],
        *,
        exit_code: Callable[[], int | None],
        finish: Callable[[], None],
        errors: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._far = far
        self._output = output
        self._exit_code = exit_code
        self._finish = finish
        self._errors = errors
        self._change = threading.Condition()
        self._users = 0
        self._closed = False

    def read(self) -> bytes:
        return self._use(lambda: next(self._output, b""), b"")

    def write(self, data: bytes) -> None:
        self._use(lambda: self._far.send(data), None)

    def resize(self, rows: int, columns: int) -> None:
        self._use(lambda: self._far.resize(rows, columns), None)

    def exit_code(self) -> int | None:
        return self._use(self._exit_code, None)

    def close(self) -> None:
        with self._change:
            if self._closed:
                return
            self._closed = True
        try:
            with self._errors():
                self._far.leave()
        except (OSError, BaiError):
            pass  # It is gone already.
        with self._change:
            self._change.wait_for(lambda: not self._users)
        self._finish()

    def _use(self, call: Callable[[], T], otherwise: T) -> T:
        """What it gives; `otherwise` once the terminal is closed, also where that broke it off."""
        with self._change:
            if self._closed:
                return otherwise
            self._users += 1
        try:
            with self._errors():
                return call()
        except (OSError, BaiError):
            if self._closed:
                return otherwise
            raise
        finally:
            with self._change:
                self._users -= 1
                self._change.notify_all()
