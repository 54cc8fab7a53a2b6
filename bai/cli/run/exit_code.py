"""How a batch session ended, which is seen a moment after its output has ended."""

from __future__ import annotations

import time
from collections.abc import Callable

from schemas.problems.errors.command import CommandError

PATIENCE = 120.0
"""Seconds in which somebody has seen it."""


def await_exit_code(identity: str, look: Callable[[], int | None], pause: float) -> int:
    """What `look` gives once it is known, with `pause` seconds between two looks. Raises CommandError where
    nobody can say: that is no failure of the session's."""
    end = time.monotonic() + PATIENCE
    while (code := look()) is None:
        if time.monotonic() > end:
            hint = "its node may be out of reach; `bai get` and `bai describe` tell once it is seen"
            raise CommandError(why=f"how {identity} ended is not known", hint=hint)
        time.sleep(pause)
    return code
