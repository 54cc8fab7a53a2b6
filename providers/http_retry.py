"""When a request is sent again: as long after an answer as it asks for, within bounds."""

from __future__ import annotations

from collections.abc import Callable

from tenacity import RetryCallState
from tenacity.wait import wait_base


def wait_as_asked(otherwise: wait_base, longest: float) -> Callable[[RetryCallState], float]:
    """Seconds of the answer's `Retry-After`, at most `longest`; without one, what `otherwise` says."""

    def wait(state: RetryCallState) -> float:
        outcome = state.outcome
        asked = "" if outcome is None or outcome.failed else outcome.result().headers.get("Retry-After", "")
        return min(float(asked), longest) if asked.isdecimal() else otherwise(state)

    return wait
