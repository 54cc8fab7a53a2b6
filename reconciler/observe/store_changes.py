"""What was seen, as changes to the store: phases, results and exit codes that moved on by themselves, nodes
that were lost or are back, what users owe. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import cast

from reconciler.observe.node_status import condition_changes
from reconciler.observe.usage_samples import sample_changes
from reconciler.values.accounting import account_changes
from reconciler.values.documents.idle_rules import watched_kernels
from reconciler.values.documents.usage_sampling import accounted_kernels
from reconciler.values.records import (
    ALL_NODES,
    Contact,
    Event,
    Phase,
    PutRecord,
    Result,
    Sample,
    SampleChange,
    StoreChange,
)
from reconciler.values.session_phase import ENDED
from reconciler.values.state import Actual, Desired, Existing
from schemas.values.once_per_value import once_per_value
from schemas.values.resource_ref import ref_of


def store_changes(
    actual: Actual, desired: Desired, usage: Mapping[str, Sample], now: float, actor: str
) -> tuple[StoreChange, ...]:
    """All that the store has to be told after a look at the world; `usage`: what kernels were measured to
    use."""
    if not actual.complete:
        return ()
    nodes = (node.name for node in desired.nodes)
    return (
        *contact_changes(actual, nodes, now),
        *record_changes(actual, now, actor),
        *_usage_changes(actual, desired, usage, now),
        *condition_changes(actual, now),
    )


def _usage_changes(
    actual: Actual, desired: Desired, usage: Mapping[str, Sample], now: float
) -> tuple[SampleChange, ...]:
    """Samples are kept of kernels that are watched, or accounted for, seen now or not."""
    away = {kernel for each in actual.existing.values() for kernel in each.away}
    watched = watched_kernels(desired, actual) | (away & actual.samples.keys())
    accounted = accounted_kernels(desired, actual) - watched
    return sample_changes(actual.samples, usage, watched, now, accounted=accounted)


def record_changes(actual: Actual, now: float, actor: str) -> tuple[StoreChange, ...]:
    """Records that reality has overtaken, each with its event; nothing where nobody looked or could see
    everything."""
    if not actual.complete:
        return ()
    return tuple(
        change for each in actual.existing.values() for change in _session_changes(each, actual, now, actor)
    )


def contact_changes(actual: Actual, nodes: Iterable[str], now: float) -> tuple[Contact, ...]:
    """Nodes that were lost or reached since the store was last told."""
    return tuple(_node_contacts(actual, nodes, now)) if actual.complete else ()


def _node_contacts(actual: Actual, nodes: Iterable[str], now: float) -> Iterator[Contact]:
    for node in sorted(nodes):
        known, missed = actual.contacts.get(node), actual.missed.get(node)
        if missed is not None and (known is None or known.lost is None):
            yield Contact(node, known.reached if known else None, now, missed.why)
        elif missed is None and (known is None or known.lost is not None):
            yield Contact(node, now)
    if ALL_NODES not in actual.contacts and not any(missed.stranger for missed in actual.missed.values()):
        yield Contact(ALL_NODES, now)


def _session_changes(each: Existing, actual: Actual, now: float, actor: str) -> Iterator[StoreChange]:
    if _is_as_recorded(each):
        return
    record = each.recorded
    left = {stray.id for stray in each.strays}
    current = replace(
        record,
        phase=cast(Phase, each.phase),
        result=cast(Result, each.result),
        exit_codes=dict(each.exit_codes),
        reason=each.reason,
        started_at=record.started_at or _first_start(each),
        finished_at=_finished_at(each, now),
        ghosts=tuple(one for one in record.ghosts if one.node in actual.missed or one.kernel in left),
    )
    if current == record and not each.adopted:
        return
    yield from account_changes(record, current, now)
    yield PutRecord(current)
    if current.phase != record.phase or each.adopted:
        before = "" if each.adopted else record.phase
        cause = "found by its labels" if each.adopted else each.reason or "observed"
        at = current.finished_at or now
        yield Event(each.id, before, current.phase, cause, at, actor, record.commit, current.result)


@once_per_value
def _is_as_recorded(each: Existing) -> bool:
    """Whether nothing is to be written of it, whatever the time, and whichever nodes are missed."""
    if ref_of(each.id).kind != "Session":
        return True
    record = each.recorded
    if each.adopted or record.ghosts:
        return False
    moved = (each.phase, each.result, each.exit_codes, each.reason, _finished_at(each, inf))
    recorded = (record.phase, record.result, record.exit_codes, record.reason, record.finished_at)
    return moved == recorded and (record.started_at or _first_start(each)) == record.started_at


def _finished_at(each: Existing, now: float) -> float | None:
    if each.phase in ENDED:
        return each.finished_at or now
    return each.recorded.finished_at if each.phase == "TERMINATING" else None


def _first_start(each: Existing) -> float | None:
    return min((kernel.started.timestamp() for kernel in each.kernels if kernel.started), default=None)
