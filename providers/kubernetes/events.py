"""What happens to kernels, as their pods change."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Literal

from providers.abilities import KernelEvent
from providers.base import Observed
from providers.kubernetes.api.errors import api_errors
from providers.kubernetes.api.reflector import Reflector
from providers.kubernetes.observe.foreign import ForeignPod
from providers.kubernetes.observe.pods import OwnPod
from schemas.problems.errors.provider import ProviderError

TICK = 1.0
"""Seconds between two looks at whether the watch goes on and whether anybody still hears."""
_MOST = 10_000
"""Events that wait to be heard; what is beyond is told as a change of the state that follows."""

What = Literal["created", "started", "ended", "out-of-memory", "removed", "changed"]


def stream_events(pods: Reflector[OwnPod | ForeignPod], stop: Callable[[], bool]) -> Iterator[KernelEvent]:
    """From now on, until `stop()` says so."""
    heard: queue.Queue[KernelEvent] = queue.Queue(_MOST)

    def tell(before: OwnPod | ForeignPod | None, now: OwnPod | ForeignPod | None) -> None:
        event = event_between(
            before.kernel if isinstance(before, OwnPod) else None,
            now.kernel if isinstance(now, OwnPod) else None,
        )
        if event is not None and not heard.full():
            heard.put(event)

    _keep_watching(pods)
    end = pods.listen(tell)
    try:
        while not stop():
            _keep_watching(pods)
            try:
                yield heard.get(timeout=TICK)
            except queue.Empty:
                continue
    finally:
        end()


def _keep_watching(pods: Reflector[OwnPod | ForeignPod]) -> None:
    """A second look is what begins a watch; while it goes on, a look costs nothing."""
    try:
        with api_errors():
            pods.look()
    except ProviderError:
        return  # Passes say that the cluster cannot be asked.


def event_between(before: Observed | None, now: Observed | None) -> KernelEvent | None:
    """What a change of a kernel means; None where it is none that anybody would want to hear of. Pure."""
    if now is None:
        return None if before is None else _event(before, "removed", datetime.now(UTC))
    if before is None:
        return _event(now, "created", now.created)
    if before.state == now.state and before.restarts == now.restarts:
        return None
    if now.state in ("exited", "lost"):
        what: What = "out-of-memory" if now.reason == "out-of-memory" else "ended"
        return _event(now, what, now.finished)
    if now.state == "running":
        return _event(now, "started", now.started)
    return _event(now, "changed", None)


def _event(kernel: Observed, what: What, at: datetime | None) -> KernelEvent:
    return KernelEvent(
        at=at or datetime.now(UTC),
        kernel=kernel.id,
        node=kernel.labels.node,
        what=what,
        exit_code=kernel.exit_code if what in ("ended", "out-of-memory") else None,
    )
