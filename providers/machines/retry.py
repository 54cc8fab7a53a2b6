"""Back-off for connections: a far side that refuses for a moment, as servers do while they restart, has not
failed yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_chain, wait_fixed

from schemas.problems.errors.provider import ProviderUnavailable

T = TypeVar("T")

PAUSES = (0.2, 0.8, 2.0)
"""Seconds before each further attempt."""
QUICK = 2.0
"""Attempts that have taken longer than these seconds have waited for an answer themselves: none follows."""


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
    retrying = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, ProviderUnavailable) and may_pass(error)),
        stop=_is_last,
        wait=wait_chain(*map(wait_fixed, PAUSES)),
        sleep=sleep,
        reraise=True,
    )
    try:
        return retrying(attempt)
    except ProviderUnavailable as error:
        number = retrying.statistics["attempt_number"]
        if number == 1 or "why" not in error.fields:
            raise
        fields = {**error.fields, "why": f"{error.fields['why']} (tried {number} times)"}
        raise type(error)(hint=error.hint, **fields) from error


def _is_last(state: RetryCallState) -> bool:
    waited = (state.seconds_since_start or 0.0) - state.idle_for
    return state.attempt_number > len(PAUSES) or waited > QUICK
