"""What labs say to the harness: what they wait for, and what they have to do when their tests are over.

with spent("boot"):
    ...
at_the_end_of("vm", close)
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

seconds: dict[str, float] = defaultdict(float)
"""What the test that runs has waited for so far, by kind."""
_inside = threading.local()
_closing: dict[str, list[Callable[[], None]]] = {}


@contextlib.contextmanager
def spent(kind: str) -> Iterator[None]:
    """What passes meanwhile counts as `kind` for the test that runs; the outermost block counts."""
    if threading.current_thread() is not threading.main_thread() or getattr(_inside, "kind", ""):
        yield
        return
    _inside.kind = kind
    began = time.monotonic()
    try:
        yield
    finally:
        seconds[kind] += time.monotonic() - began
        _inside.kind = ""


@contextlib.contextmanager
def off_the_clock() -> Iterator[None]:
    """The limit of the test that runs (pytest-timeout's) stands still: what is made once for all tests, or is
    waited for while another worker makes it, has a limit of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)


def at_the_end_of(group: str, close: Callable[[], None]) -> None:
    """`close` is called when this worker goes on to tests of another group."""
    _closing.setdefault(group, []).append(close)


def end_of(group: str) -> None:
    """Its tests are over here."""
    for close in _closing.pop(group, []):
        close()
