"""A lost store made anew from the labels of what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from reconciler.observe.clock_skew import EARLIEST_CREDIBLE
from reconciler.observe.observe import actual_state
from reconciler.values.records import Audit, Event, PutRecord, Recorded, StoreChange
from schemas.problems.errors.plan import IncompleteObservation
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from providers.base import Observation
    from reconciler.observe.refresh import RecordWriter
    from reconciler.store.database.address import StoreAddress


def write_rebuilt(
    seen: Observation, writer: RecordWriter, *, repo: str, cluster: str, log: Callable[[str], None]
) -> tuple[str, ...]:
    """Fill an empty or lost store from the labels of what runs; gives the identities recovered. `log` hears
    what else was done. Raises IncompleteObservation, LeaseHeld, StoreError."""
    store, now = writer.store, writer.clock.now()
    with writer.lease as lease:
        known = store.recorded(cluster)
        changes = rebuild_changes(seen, repo=repo, cluster=cluster, known=known, now=now, actor=writer.holder)
        late = store.clamp_future_times(lease, now) if now >= EARLIEST_CREDIBLE else 0
        if late:
            log(f"{late} times of the future are set to now.")
        cause = f"{len(changes)} changes from the labels of what runs, {late} times of the future set to now"
        store.write(lease, [*changes, Audit("rebuild", "", now, cause)])
    return tuple(change.record.resource for change in changes if isinstance(change, PutRecord))


def require_complete(seen: Observation) -> None:
    """Raises IncompleteObservation: half a store would be worse than none."""
    if not seen.complete:
        raise IncompleteObservation(why="; ".join(seen.errors) or "the provider could not say why")


def quarantine_unusable(address: StoreAddress, log: Callable[[str], None]) -> None:
    """Make room where a file stands that cannot be used."""
    from reconciler.store.maintenance.quarantine import quarantine_files, unusable_reason

    if address.path is not None and (why := unusable_reason(address.path)):
        kept = quarantine_files(address.path)
        log(f"{address.path} cannot be used: {why}. It is kept as {kept}.")


def owning_repository(seen: Observation, cluster: str, candidates: Iterable[str]) -> str:
    """The repository id, of those that this repository may go by, that kernels really carry; the first when
    none does."""
    ids = list(candidates)
    found = {kernel.labels.repo for kernel in seen.kernels if kernel.labels.cluster == cluster}
    return next((each for each in ids if each in found), ids[0])


def rebuild_changes(
    seen: Observation, *, repo: str, cluster: str, known: Iterable[str], now: float, actor: str
) -> tuple[StoreChange, ...]:
    """Records of all sessions that run and are not `known`, each with an event.

    Raises IncompleteObservation.
    """
    require_complete(seen)
    actual = actual_state({}, seen, None, repo=repo, cluster=cluster, hardware={})
    there = set(known)
    changes: list[StoreChange] = []
    for identity, each in actual.existing.items():
        if ref_of(identity).kind == "Session" and identity not in there:
            changes += (PutRecord(each.recorded), _event(each.recorded, now, actor))
    return tuple(changes)


def _event(record: Recorded, now: float, actor: str) -> Event:
    cause = "rebuilt from labels"
    return Event(record.resource, "", record.phase, cause, now, actor, record.commit, record.result)
