"""Replicas that stand by: what the leader saw and planned reaches them through the common store.

The leader notes after each pass what came of it, under its own lease, so that one who has lost the lead
writes nothing any more. Who stands by reads that and the records, and makes of them a pass that was
another's: answers of all replicas are made in the same way, and none but the leader asks a node.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from reconciler.controller.cycle import ReconcileCycle
from reconciler.controller.loop import Loop
from reconciler.controller.replica import Replica
from reconciler.store.store import Store
from reconciler.values.encoding.plan_json import dump_plan_compactly, load_plan
from reconciler.values.plan import Plan
from reconciler.values.records import Lease
from schemas.problems.errors.plan import PlanError
from schemas.problems.errors.store import LeaseLost, StoreError


@dataclass(frozen=True, slots=True)
class LeaderNote:
    """What came of the leader's last pass. `ended` in seconds since the epoch; `plan`: the digest of the last
    one that a pass came to."""

    holder: str
    ended: float
    commit: str
    good: bool
    notes: tuple[str, ...]
    plan: str


class StandbyPublisher:
    """The leader's side: `publish` gets its cycles, in the loop's thread. `lease`: that by which it leads,
    None while it does not."""

    def __init__(self, replica: Replica, lease: Callable[[], Lease | None]) -> None:
        self._store, self._cluster, self._holder = replica.store, replica.cluster, replica.holder
        self._lease = lease
        self._last: LeaderNote | None = None

    def publish(self, done: ReconcileCycle) -> None:
        """Never raises: a store that cannot be written is the loop's to tell."""
        lease = self._lease()
        if lease is None:
            self._last = None
            return
        try:
            self._write_note(lease, done)
        except (StoreError, LeaseLost):
            self._last = None

    def _write_note(self, lease: Lease, done: ReconcileCycle) -> None:
        last, digest = self._last, done.plan.digest if done.plan is not None else ""
        plan = digest or (last.plan if last is not None else "")
        note = LeaderNote(self._holder, done.ended, done.commit, done.good, done.notes, plan)
        if done.plan is not None and (last is None or last.plan != digest):
            self._store.set_meta_with_lease(lease, _plan_key(self._cluster), dump_plan_compactly(done.plan))
        news = last is None or replace(note, ended=0.0) != replace(last, ended=0.0)
        # That the same was seen once more wakes nobody up.
        self._store.set_meta_with_lease(
            lease, _note_key(self._cluster), json.dumps(asdict(note)), tell=self._cluster if news else ""
        )
        self._last = note


class StandbyFollower:
    """The side of who stands by: `follow` gives `on_cycle` the leader's last cycle as the store has it, in
    the loop's thread."""

    def __init__(self, loop: Loop, on_cycle: Callable[[ReconcileCycle], None]) -> None:
        self._loop, self._on_cycle = loop, on_cycle
        self._plan: Plan | None = None

    def follow(self) -> None:
        """Nothing while no leader has told anything. Raises StoreError."""
        store, cluster = self._loop.workspace.store, self._loop.workspace.cluster.name
        note = read_leader_note(store, cluster)
        if note is None:
            return
        recorded = self._loop.recorded_cycle(note.commit)
        self._on_cycle(
            replace(
                recorded, began=note.ended, ended=note.ended, good=note.good,
                plan=self._leader_plan(store, cluster, note.plan),
                notes=(*note.notes, *recorded.notes), by=note.holder,
            )
        )  # fmt: skip

    def _leader_plan(self, store: Store, cluster: str, digest: str) -> Plan | None:
        if self._plan is None or self._plan.digest != digest:
            text = store.meta(_plan_key(cluster)) if digest else None
            try:
                self._plan = load_plan(text) if text else None
            except PlanError:
                # Of another version of bai's, or just being replaced.
                self._plan = None
        return self._plan


def read_leader_note(store: Store, cluster: str) -> LeaderNote | None:
    """What the leader told last; None when none ever did. Raises StoreError."""
    found = store.meta(_note_key(cluster))
    if not found:
        return None
    value = json.loads(found)
    return LeaderNote(**{**value, "notes": tuple(value["notes"])})


def _note_key(cluster: str) -> str:
    return f"seen/{cluster}"


def _plan_key(cluster: str) -> str:
    return f"seen-plan/{cluster}"
