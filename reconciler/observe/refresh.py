"""What was seen, as changes to the store: phases, results and exit codes that moved on by themselves, nodes
that were lost or are back, what users owe. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from reconciler.observe.node_status import seen as nodes_seen
from reconciler.observe.observe import Look, look, with_store
from reconciler.observe.usage_samples import measure, sampled
from reconciler.plan.decide.idleness import watched
from reconciler.values.accounting import charges
from reconciler.values.records import EVERYBODY, Contact, Event, Phase, Put, Result, Sample, StoreChange
from reconciler.values.session_phase import ENDED
from reconciler.values.state import Actual, Desired, Existing

if TYPE_CHECKING:
    from reconciler.store import Store
    from reconciler.workspace.workspace import Workspace


def look_around(
    workspace: Workspace, holder: str, tell: Callable[[Sequence[StoreChange]], None] | None = None
) -> Actual:
    """Observe, and write down what was seen: phases, results, contact with nodes, use, hardware. `tell` hears
    what was written. Raises LeaseHeld."""
    seen = look(workspace.provider)
    actual, desired = workspace.actual(seen=seen), workspace.desired()
    used = measure(workspace.provider, watched(desired, actual))
    now = workspace.clock.now()
    store, cluster = workspace.store, workspace.cluster.name
    if observed(actual, desired, used, now, holder):
        with workspace.lease(holder) as lease:
            if store.recorded(cluster) != {
                each.id: each.recorded for each in actual.existing.values() if not each.adopted
            }:
                # What another apply wrote meanwhile must not be overwritten with what was.
                seen = look(workspace.provider)
                actual = workspace.actual(seen=seen)
            changes = observed(actual, desired, used, now, holder)
            store.write(lease, changes)
        if tell is not None:
            tell(changes)
        actual = with_records(actual, store, seen)
    workspace.keep_hardware(workspace.find_hardware().here)
    return actual


def observed(
    actual: Actual, desired: Desired, new: Mapping[str, Sample], now: float, actor: str
) -> tuple[StoreChange, ...]:
    """All that the store has to be told after a look at the world; `new`: what kernels were measured to
    use."""
    if not actual.complete:
        return ()
    nodes = (node.name for node in desired.nodes)
    samples = sampled(actual.samples, new, _remembered(actual, desired), now)
    return (*contacts(actual, nodes, now), *refreshed(actual, now, actor), *samples, *nodes_seen(actual, now))


def _remembered(actual: Actual, desired: Desired) -> frozenset[str]:
    """Kernels whose samples are kept: those that are watched, seen now or not."""
    away = {kernel for each in actual.existing.values() for kernel in each.away}
    return watched(desired, actual) | (away & actual.samples.keys())


def refreshed(actual: Actual, now: float, actor: str) -> tuple[StoreChange, ...]:
    """Records that reality has overtaken, each with its event; nothing where nobody looked or could see
    everything."""
    if not actual.complete:
        return ()
    return tuple(change for each in actual.existing.values() for change in _changes(each, actual, now, actor))


def contacts(actual: Actual, nodes: Iterable[str], now: float) -> tuple[Contact, ...]:
    """Nodes that were lost or reached since the store was last told."""
    return tuple(_contacts(actual, nodes, now)) if actual.complete else ()


def _contacts(actual: Actual, nodes: Iterable[str], now: float) -> Iterator[Contact]:
    for node in sorted(nodes):
        known, missed = actual.contacts.get(node), actual.missed.get(node)
        if missed is not None and (known is None or known.lost is None):
            yield Contact(node, known.reached if known else None, now, missed.why)
        elif missed is None and (known is None or known.lost is not None):
            yield Contact(node, now)
    if EVERYBODY not in actual.contacts and not any(missed.stranger for missed in actual.missed.values()):
        yield Contact(EVERYBODY, now)


def _changes(each: Existing, actual: Actual, now: float, actor: str) -> Iterator[StoreChange]:
    if not each.id.startswith("Session/"):
        return
    record = each.recorded
    left = {stray.id for stray in each.strays}
    current = replace(
        record,
        phase=cast(Phase, each.phase),
        result=cast(Result, each.result),
        exit_codes=dict(each.exit_codes),
        reason=each.reason,
        started_at=record.started_at or _started(each),
        finished_at=(each.finished_at or now) if each.phase in ENDED else None,
        ghosts=tuple(one for one in record.ghosts if one.node in actual.missed or one.kernel in left),
    )
    if current == record and not each.adopted:
        return
    yield from charges(record, current, now)
    yield Put(current)
    if current.phase != record.phase or each.adopted:
        before = "" if each.adopted else record.phase
        cause = "found by its labels" if each.adopted else each.reason or "observed"
        yield Event(each.id, before, current.phase, cause, current.finished_at or now, actor, record.commit)


def _started(each: Existing) -> float | None:
    return min((kernel.started.timestamp() for kernel in each.kernels if kernel.started), default=None)


def with_records(actual: Actual, store: Store, seen: Look) -> Actual:
    """What was seen, beside what is recorded now."""
    new = with_store(store, seen, actual.cluster, repo=actual.repo, hardware=actual.hardware)
    return replace(
        actual,
        existing=new.existing,
        missed=new.missed,
        contacts=new.contacts,
        samples=new.samples,
        balances=new.balances,
        standings=new.standings,
    )
