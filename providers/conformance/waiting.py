"""Waiting for what the world does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


PATIENCE = 120.0
"""Seconds after which what is waited for counts as never."""
_SHARE = 4
"""Pauses are so many times as long as a look took, which leaves the cores to what is waited for."""
_LONGEST_PAUSE = 2.0


def soon(condition: Callable[[], object], *, seconds: float = 60, pause: float = 0.02) -> bool:
    """Poll until it is true, `pause` seconds apart at least; False when it never is."""
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if condition():
            return True
        now = time.monotonic()
        if now > deadline:
            return False
        time.sleep(max(pause, min(_SHARE * (now - began), _LONGEST_PAUSE)))


def until(
    condition: Callable[[], T | None],
    what: str | Callable[[], str] = "what is waited for",
    *,
    seconds: float | None = None,
    pause: float = 0.02,
) -> T:
    """Poll until it is true, and give what it gave; fails by name when it never is."""
    found: T | None = None

    def true() -> bool:
        nonlocal found
        found = condition()
        return bool(found)

    patience = PATIENCE if seconds is None else seconds
    assert soon(true, seconds=patience, pause=pause), f"still not: {what() if callable(what) else what}"
    assert found is not None
    return found
