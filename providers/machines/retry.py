"""Back-off for connections: a far side that refuses for a moment, as servers do while they restart, has not
failed yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from schemas.problems.errors.provider import ProviderUnavailable

T = TypeVar("T")

PAUSES = (0.2, 0.8, 2.0)
"""Seconds before each further attempt."""
QUICK = 2.0
"""An attempt that lasted longer than these seconds has waited for an answer itself, and is not repeated."""


def with_backoff(
    attempt: Callable[[], T],
    may_pass: Callable[[ProviderUnavailable], bool],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """What `attempt` gives, after up to four attempts within some three seconds.

    `may_pass`: whether an error may be gone in a moment. The last error is raised; its field `why` says how
    many attempts there were.
    """
    for number, pause in enumerate((*PAUSES, None), 1):
        began = time.monotonic()
        try:
            return attempt()
        except ProviderUnavailable as error:
            if pause is None or time.monotonic() - began > QUICK or not may_pass(error):
                if number == 1 or "why" not in error.fields:
                    raise
                fields = {**error.fields, "why": f"{error.fields['why']} (tried {number} times)"}
                raise type(error)(hint=error.hint, **fields) from error
        sleep(pause)
    raise AssertionError
