"""What one apply writes: journal, records and events, gathered and written in one transaction at a time.

Nothing counts before `flush`; the engine flushes before it starts an effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from reconciler.apply import audit_entries
from reconciler.apply.steps import Step
from reconciler.store.store import Store
from reconciler.values.accounting import account_changes
from reconciler.values.clock import Clock
from reconciler.values.plan import Action
from reconciler.values.records import (
    Event,
    ForgetRecord,
    JournalEntry,
    JournalState,
    ProvisionRecord,
    PutRecord,
    Recorded,
    Result,
    StoreChange,
)
from reconciler.values.session_phase import ENDED, with_times
from reconciler.values.violations import Overridden
from schemas.problems.errors.store import LeaseLost

TTL = 60.0
"""Seconds that a lease is good for without renewal."""
_PHASE_ORDER = ("PENDING", "SCHEDULED", "PREPARING", "PULLING", "CREATING", "RUNNING")
_ALWAYS_ENTERED = frozenset(_PHASE_ORDER) - {"PULLING"}


class JournalWriter:
    """One apply's pen. Raises StoreError and LeaseLost from `flush` and `renew` only."""

    def __init__(
        self, store: Store, clock: Clock, cluster: str, holder: str, commit: str, plan: str = ""
    ) -> None:
        self._store = store
        self._clock = clock
        self._commit = commit
        self._plan = plan
        self.lease = store.acquire(cluster, holder, TTL, clock.now())
        self.apply = f"{cluster}-{self.lease.token}"
        self.known: dict[str, Recorded] = {}
        self.provision_records: dict[str, ProvisionRecord] = {}
        self._changes: list[StoreChange] = []

    def load(self) -> None:
        """Read what is recorded, under the lease."""
        self.known = self._store.recorded(self.lease.cluster)
        self.provision_records = self._store.provision_records(self.lease.cluster)

    def fence(self) -> None:
        """From any thread: raises LeaseLost once somebody else has the lease, or may have it."""
        now = self._store.lease(self.lease.cluster)
        if now is None or now.token != self.lease.token:
            raise LeaseLost(cluster=self.lease.cluster, token=self.lease.token)

    def begin(self, count: int, overridden: Iterable[Overridden] = ()) -> None:
        """For the audit: a plan of so many actions is carried out, with these policies put aside."""
        now = self._clock.now()
        self._changes.append(audit_entries.apply_entry(self.apply, self._plan, self._commit, count, now))
        for one in overridden:
            self._changes.append(audit_entries.override_entry(one, self.apply, self._plan, self._commit, now))

    def begin_action(self, action: Action) -> None:
        """For the audit: who changes what, before it happens."""
        now = self._clock.now()
        self._changes.append(audit_entries.action_entry(action, self.apply, self._plan, self._commit, now))

    def fail_action(self, action: Action, error: str) -> None:
        now = self._clock.now()
        self._changes.append(
            audit_entries.failure_entry(action, error, self.apply, self._plan, self._commit, now)
        )

    def journal(self, action: str, step: Step, state: JournalState, error: str = "") -> None:
        now = self._clock.now()
        entry = JournalEntry(self.apply, action, step.key, step.kind, step.kernel_id, state, now, error)
        self._changes.append(entry)

    def close_intent(self, entry: JournalEntry, state: JournalState, error: str) -> None:
        """Write down how an earlier apply's open step turned out."""
        self._changes.append(replace(entry, state=state, error=error, at=self._clock.now(), seq=0))

    def put(self, record: Recorded, cause: str) -> None:
        """Record it, with the times that it does not say itself, and an event for each phase entered."""
        now = self._clock.now()
        old = self.known.get(record.resource)
        record = with_times(record, old, now)
        self._changes += account_changes(old, record, now)
        self._changes.append(PutRecord(record))
        self._transition(record, old, cause)
        self.known[record.resource] = record

    def forget(self, resource: str, cause: str) -> None:
        old = self.known.pop(resource, None)
        self._changes += account_changes(old, None, self._clock.now())
        self._changes.append(ForgetRecord(resource))
        if old is not None:
            after = "TERMINATED" if old.phase else "DELETED"
            if old.phase not in ENDED:
                self._event(resource, old.phase, after, cause)

    def add(self, *changes: StoreChange) -> None:
        """Whatever else has to be written with the rest."""
        self._changes += changes

    def flush(self) -> None:
        """Write everything gathered, or nothing."""
        if self._changes:
            changes, self._changes = self._changes, []
            self._store.write(self.lease, changes)

    def renew(self) -> None:
        """Renew the lease when a third of its time has passed."""
        now = self._clock.now()
        left = self.lease.expires - now
        # More than there ever was is left when our clock was set back, which the server's was not.
        if not self.lease.ttl * 2 / 3 < left <= self.lease.ttl:
            self.lease = self._store.renew(self.lease, now)

    def prune(self) -> None:
        """Keep the journal within its bounds."""
        self._store.prune(self.lease)

    def release(self) -> None:
        self._store.release(self.lease)

    def _transition(self, record: Recorded, old: Recorded | None, cause: str) -> None:
        if not record.phase:
            self._event(record.resource, "", "RECORDED" if old is None else "CHANGED", cause)
            return
        before: str = old.phase if old else ""
        for phase in _phases_between(before, record.phase):
            result = record.result if phase == record.phase else ""
            self._event(record.resource, before, phase, cause, result)
            before = phase

    def _event(self, resource: str, before: str, after: str, cause: str, result: Result = "") -> None:
        now = self._clock.now()
        event = Event(resource, before, after, cause, now, commit=self._commit, result=result)
        self._changes.append(event)


def _phases_between(before: str, after: str) -> Iterator[str]:
    """The phases a session enters on its way: a new one that is created has been queued, placed and prepared
    as well."""
    if before == after:
        return
    if after in _PHASE_ORDER:
        first = _PHASE_ORDER.index(before) + 1 if before in _PHASE_ORDER else 0
        last = _PHASE_ORDER.index(after)
        if first <= last:
            # Most sessions find their image where they start: nothing is pulled for these.
            yield from (
                phase for phase in _PHASE_ORDER[first : last + 1] if phase in (after, *_ALWAYS_ENTERED)
            )
            return
    yield after
