"""How a loop's last pass ended, kept in the store for commands of other processes.

Written when something of it is new, never because the same was seen once more: an idle loop costs nothing.
Whether the loop still runs is told by its process, not by how fresh the note is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from reconciler.store.database.process_identity import current_process_identity
from reconciler.store.store import Store
from schemas.problems.errors.store import StoreError

if TYPE_CHECKING:  # Who reads a note does not load the loop.
    from reconciler.controller.cycle import ReconcileCycle
    from reconciler.controller.loop import Loop
    from reconciler.controller.loop_options import LoopOptions

MOST_NOTES = 20
"""Of what a pass said; the rest is in the loop's log."""


@dataclass(frozen=True, slots=True)
class PassNote:
    """`since`: when the first pass ended that ended so, in seconds since the epoch."""

    holder: str
    since: float
    commit: str
    good: bool
    process: str = ""
    """The loop's (see `process_identity`); empty when not known."""
    started: float = 0.0
    """When the loop began."""
    interval: float = 0.0
    observe_only: bool = False
    notes: tuple[str, ...] = ()
    """What it said beside who waits, which plans tell."""
    left_out: int = 0
    """How many more of these there were."""
    signs: Mapping[str, str] = field(default_factory=dict)
    """What people are told while it lasts, by class of events."""


def pass_note(done: ReconcileCycle, options: LoopOptions) -> PassNote:
    """What is to be known of one pass."""
    waiting = {wait.session for wait in done.plan.waits} if done.plan is not None else set()
    notes = [note for note in done.notes if note.partition(" waits: ")[0] not in waiting]
    return PassNote(
        options.holder, done.ended, done.commit, done.good,
        interval=options.interval, observe_only=options.observe_only,
        notes=tuple(notes[:MOST_NOTES]), left_out=max(0, len(notes) - MOST_NOTES), signs=dict(done.signs),
    )  # fmt: skip


class PassRecorder:
    """`record` gets the cycles of one loop, in its thread."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._process = current_process_identity()
        self._started = loop.workspace.clock.now()
        self._last: PassNote | None = None

    def record(self, done: ReconcileCycle) -> None:
        """Never raises: a store that cannot be written is the loop's to tell."""
        note = pass_note(done, self._loop.options)
        note = replace(note, process=self._process, started=self._started)
        last = self._last
        if last is not None and replace(note, since=0.0) == replace(last, since=0.0):
            return
        try:
            self._loop.workspace.store.set_meta(_key(done.cluster), json.dumps(asdict(note)))
        except StoreError:
            return
        self._last = note


def read_pass_note(store: Store, cluster: str) -> PassNote | None:
    """How the last pass ended, of whichever loop; None when none ever did. Raises StoreError."""
    found = store.meta(_key(cluster))
    if not found:
        return None
    value = json.loads(found)
    known = {name: value[name] for name in PassNote.__dataclass_fields__ if name in value}
    return PassNote(**{**known, "notes": tuple(known.get("notes", ()))})


def _key(cluster: str) -> str:
    return f"pass/{cluster}"
