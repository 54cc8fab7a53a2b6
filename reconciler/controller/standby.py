"""Replicas that stand by: what the leader saw and planned reaches them through the common store.

The leader notes after each pass what came of it, under its own lease, so that one who has lost the lead
writes nothing any more. Who stands by reads that and the records, and makes of them a pass that was
another's: answers of all replicas are made in the same way, and none but the leader asks a node.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from reconciler.controller.cycle import Pass
from reconciler.controller.loop import Loop
from reconciler.store import Store
from reconciler.values.plan import Plan
from reconciler.values.plan_json import dump, load
from reconciler.values.records import Lease
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors import BaiError, LeaseLost, PlanError, StoreError


@dataclass(frozen=True, slots=True)
class Told:
    """What came of the leader's last pass. `ended` in seconds since the epoch; `plan`: the digest of the last
    one that a pass came to."""

    holder: str
    ended: float
    commit: str
    good: bool
    notes: tuple[str, ...]
    plan: str


class Teller:
    """The leader's side: `heard` gets its passes, in the loop's thread. `lease`: that by which it leads, None
    while it does not."""

    def __init__(self, store: Store, cluster: str, holder: str, lease: Callable[[], Lease | None]) -> None:
        self._store, self._cluster, self._holder = store, cluster, holder
        self._lease = lease
        self._last: Told | None = None

    def heard(self, done: Pass) -> None:
        """Never raises: a store that cannot be written is the loop's to tell."""
        lease = self._lease()
        if lease is None:
            self._last = None
            return
        try:
            self._note(lease, done)
        except (StoreError, LeaseLost):
            self._last = None

    def _note(self, lease: Lease, done: Pass) -> None:
        last, digest = self._last, done.plan.digest if done.plan is not None else ""
        plan = digest or (last.plan if last is not None else "")
        told = Told(self._holder, done.ended, done.workspace.commit, done.good, done.notes, plan)
        if done.plan is not None and (last is None or last.plan != digest):
            self._store.note(lease, _plan_key(self._cluster), dump(done.plan))
        news = last is None or replace(told, ended=0.0) != replace(last, ended=0.0)
        # That the same was seen once more wakes nobody up.
        self._store.note(
            lease, _key(self._cluster), json.dumps(asdict(told)), tell=self._cluster if news else ""
        )
        self._last = told


class Beside:
    """The side of who stands by: `look` gives `hears` the leader's last pass as the store has it, in the
    loop's thread."""

    def __init__(self, loop: Loop, hears: Callable[[Pass], None]) -> None:
        self._loop, self._hears = loop, hears
        self._plan: Plan | None = None

    def look(self) -> None:
        """Nothing while no leader has told anything. Raises StoreError."""
        store, cluster = self._loop.workspace.store, self._loop.workspace.cluster.name
        told = told_of(store, cluster)
        if told is None:
            return
        notes = list(told.notes)
        workspace = self._loop.workspace = self._at(told.commit, notes)
        self._hears(
            Pass(
                workspace, told.ended, told.ended, told.good, workspace.actual(offline=True),
                self._planned(store, cluster, told.plan), notes=tuple(notes), by=told.holder,
            )
        )  # fmt: skip

    def _at(self, commit: str, notes: list[str]) -> Workspace:
        """With the documents that are in force; as it was, with a note, while they cannot be had here."""
        workspace = self._loop.workspace
        try:
            return self._loop.documents.at(commit, workspace)
        except BaiError as error:
            notes.append(f"this replica has no documents of {commit[:12]}: {error}")
            return workspace

    def _planned(self, store: Store, cluster: str, digest: str) -> Plan | None:
        if self._plan is None or self._plan.digest != digest:
            text = store.meta(_plan_key(cluster)) if digest else None
            try:
                self._plan = load(text) if text else None
            except PlanError:
                # Of another version of bai's, or just being replaced.
                self._plan = None
        return self._plan


def told_of(store: Store, cluster: str) -> Told | None:
    """What the leader told last; None when none ever did. Raises StoreError."""
    found = store.meta(_key(cluster))
    if not found:
        return None
    value = json.loads(found)
    return Told(**{**value, "notes": tuple(value["notes"])})


def _key(cluster: str) -> str:
    return f"seen/{cluster}"


def _plan_key(cluster: str) -> str:
    return f"seen-plan/{cluster}"
