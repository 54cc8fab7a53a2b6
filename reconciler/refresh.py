"""What was seen, as changes to the store: phases, results and exit codes that moved on by themselves.
Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from reconciler.actual import Actual, Existing
from reconciler.derive import ENDED
from reconciler.records import Event, Phase, Put, Result, StoreChange


def refreshed(actual: Actual, now: float, actor: str) -> tuple[StoreChange, ...]:
    """Records that reality has overtaken, each with its event; nothing where nobody looked or could see
    everything."""
    if not actual.complete:
        return ()
    return tuple(change for each in actual.existing.values() for change in _changes(each, now, actor))


def _changes(each: Existing, now: float, actor: str) -> Iterator[StoreChange]:
    if not each.id.startswith("Session/"):
        return
    record = each.recorded
    current = replace(
        record,
        phase=cast(Phase, each.phase),
        result=cast(Result, each.result),
        exit_codes=dict(each.exit_codes),
        reason=each.reason,
        started_at=record.started_at or _started(each),
        finished_at=(record.finished_at or _finished(each) or now) if each.phase in ENDED else None,
    )
    if current == record and not each.adopted:
        return
    yield Put(current)
    if current.phase != record.phase or each.adopted:
        before = "" if each.adopted else record.phase
        cause = "found by its labels" if each.adopted else each.reason or "observed"
        yield Event(each.id, before, current.phase, cause, current.finished_at or now, actor, record.commit)


def _started(each: Existing) -> float | None:
    return min((kernel.started.timestamp() for kernel in each.kernels if kernel.started), default=None)


def _finished(each: Existing) -> float | None:
    return max((kernel.finished.timestamp() for kernel in each.kernels if kernel.finished), default=None)
