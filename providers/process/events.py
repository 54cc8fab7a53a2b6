"""What happens to kernels, told by comparing one look at them with the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from providers.abilities import KernelEvent

if TYPE_CHECKING:
    from providers.base import Observation, Observed

PAUSE = 0.3


def watch_events(observe: Callable[[], Observation], stop: Callable[[], bool]) -> Iterator[KernelEvent]:
    """From now on, until `stop()`. A look that was not complete makes nobody appear or disappear."""
    before = {kernel.id: kernel for kernel in observe().kernels}
    while not stop():
        time.sleep(PAUSE)
        seen = observe()
        after = {kernel.id: kernel for kernel in seen.kernels}
        if not seen.complete:
            after = {**before, **after}
        yield from diff_observations(before, after)
        before = after


def diff_observations(before: Mapping[str, Observed], after: Mapping[str, Observed]) -> Iterator[KernelEvent]:
    """What must have happened between two looks, in the order it happened to each kernel."""
    for name in sorted({*before, *after}):
        yield from _kernel_events(before.get(name), after.get(name))


def _kernel_events(was: Observed | None, now: Observed | None) -> Iterator[KernelEvent]:
    if now is None:
        assert was is not None
        yield _event(was, "removed", datetime.now(UTC))
        return
    if was is None:
        yield _event(now, "created", now.created)
    if now.started and (was is None or not was.started):
        yield _event(now, "started", now.started)
    elif was is not None and now.restarts > was.restarts:
        yield _event(now, "started", datetime.now(UTC))
    if now.state in ("exited", "lost") and (was is None or was.state not in ("exited", "lost")):
        yield _end_event(now)
    elif was is not None and _limit_values(was) != _limit_values(now) and was.pid == now.pid:
        yield _event(now, "changed", datetime.now(UTC))


def _end_event(kernel: Observed) -> KernelEvent:
    starved = kernel.reason == "out-of-memory"
    what: Literal["out-of-memory", "ended"] = "out-of-memory" if starved else "ended"
    return KernelEvent(_as_time(kernel.finished), kernel.id, kernel.labels.node, what, kernel.exit_code)


def _limit_values(kernel: Observed) -> tuple[object, ...]:
    return kernel.cpus, kernel.memory_nodes, kernel.memory, kernel.pids, kernel.labels


def _as_time(at: datetime | None) -> datetime:
    return at or datetime.now(UTC)


def _event(
    kernel: Observed, what: Literal["created", "started", "removed", "changed"], at: datetime | None
) -> KernelEvent:
    return KernelEvent(_as_time(at), kernel.id, kernel.labels.node, what)
