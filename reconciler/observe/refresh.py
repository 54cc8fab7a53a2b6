"""Refreshing: a reconcile cycle begins with it. It observes the cluster, and writes to the store what was
seen.

It reads the provider, takes the cluster's lease where something has to be written, writes, and tells what was
written. What has to be written is decided in `store_changes`, which is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from providers.base import Provider
from reconciler.observe.existing_memo import ExistingMemo
from reconciler.observe.observe import ProviderReading, add_recorded, read_provider
from reconciler.observe.store_changes import store_changes
from reconciler.observe.usage_samples import measure_usage
from reconciler.store.store import Store
from reconciler.values.clock import Clock
from reconciler.values.documents.idle_rules import watched_kernels
from reconciler.values.documents.usage_sampling import due_kernels
from reconciler.values.records import Lease, StoreChange
from reconciler.values.state import Actual, Desired

OnWritten = Callable[[Sequence[StoreChange]], None]


@dataclass(frozen=True, slots=True)
class RecordWriter:
    """Where what was seen is written: `lease` is entered only where there is something to write."""

    store: Store
    lease: AbstractContextManager[Lease]
    holder: str
    clock: Clock


def refresh_store(
    provider: Provider,
    desired: Desired,
    actual_from: Callable[[ProviderReading], Actual],
    writer: RecordWriter,
    on_written: OnWritten | None = None,
    memo: ExistingMemo | None = None,
) -> Actual:
    """Observe, and write down what was seen: phases, results, contact with nodes, use. `actual_from` puts a
    reading of the provider together with all else that is known; `on_written` hears of what was written;
    `memo`: the one that `actual_from` uses.

    Raises LeaseHeld and StoreError.
    """
    reading = read_provider(provider)
    actual = actual_from(reading)
    now = writer.clock.now()
    wanted = watched_kernels(desired, actual) | due_kernels(desired, actual, now)
    usage = measure_usage(provider, wanted, actual.samples)
    if not store_changes(actual, desired, usage, now, writer.holder):
        return actual
    with writer.lease as lease:
        if writer.store.recorded(desired.cluster) != _assumed_records(actual):
            # What another apply wrote meanwhile must not be overwritten with what was.
            reading = read_provider(provider)
            actual = actual_from(reading)
        changes = store_changes(actual, desired, usage, now, writer.holder)
        writer.store.write(lease, changes)
    if on_written is not None:
        on_written(changes)
    return _with_written_records(actual, writer.store, reading, memo)


def _assumed_records(actual: Actual) -> dict[str, object]:
    """What the store was taken to hold."""
    return {each.id: each.recorded for each in actual.existing.values() if not each.adopted}


def _with_written_records(
    actual: Actual, store: Store, reading: ProviderReading, memo: ExistingMemo | None
) -> Actual:
    """What was seen, beside what is recorded now."""
    new = add_recorded(store, reading, actual.cluster, repo=actual.repo, memo=memo)
    return replace(
        actual,
        existing=new.existing,
        missed=new.missed,
        contacts=new.contacts,
        samples=new.samples,
        balances=new.balances,
        provision_records=new.provision_records,
        rollout_orders=new.rollout_orders,
    )
