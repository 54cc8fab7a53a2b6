"""Acting: carry out a plan, and nothing else. Nothing is decided here.

The thread that calls `apply` owns the store: it writes what is about to happen, hands the effect to a worker, and writes down how
it went. Killed anywhere, what is left is a journal that names everything that may have happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from providers.base import Provider
from reconciler.clock import Clock
from reconciler.plan import Plan
from reconciler.results import ActionResult, ApplyEvent, ApplyResult
from reconciler.store import Store

__all__ = ["ActionResult", "ApplyEvent", "ApplyResult", "apply"]


def apply(
    plan: Plan,
    *,
    store: Store,
    provider: Provider,
    clock: Clock,
    holder: str,
    parallel: int = 8,
    on_event: Callable[[ApplyEvent], None] | None = None,
    stop: threading.Event | None = None,
    secrets: Callable[[str], str] | None = None,
) -> ApplyResult:
    """Carry out `plan`; `secrets` resolves one reference (`env:NAME`, `file:/path`), by default in this process' environment.

    Raises LeaseHeld, StalePlan, GuardRefused and IncompleteObservation before anything happens; LeaseLost and StoreError when nothing
    more can be written. What a provider cannot do is not raised: the action's result says it.
    """
    raise NotImplementedError
