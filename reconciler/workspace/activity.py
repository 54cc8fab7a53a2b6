"""What a command is at, told to whoever waits for it."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Protocol


class ActivityListener(Protocol):
    """Called in the thread that does the work; must neither raise nor wait."""

    def during(self, what: str) -> AbstractContextManager[None]:
        """Entered when it begins (`planning`), left when it ends."""
        ...

    def detail(self, what: str) -> None:
        """How far it has come."""
        ...


class NoActivityListener:
    """Nobody waits."""

    def during(self, what: str) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def detail(self, what: str) -> None:
        pass


NOBODY_WAITS = NoActivityListener()
