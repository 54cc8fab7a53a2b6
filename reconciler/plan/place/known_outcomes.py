"""What the planner has said of the last snapshots, said again for the same ones: most of what makes a plan
another one (a phase, a label, what was recorded of a session that begins to wait) is nothing that it sees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from planner.model.types import Outcome, Snapshot
from reconciler.plan.context import Planner

_MOST = 4
"""Snapshots: one plan asks of few, mostly of one."""


@dataclass(frozen=True, slots=True)
class _KnownOutcome:
    place: Planner
    snapshot: Snapshot
    outcome: Outcome

    def answers(self, place: Planner, snapshot: Snapshot) -> bool:
        """`Outcome.valid_until` says what the time has to do with it."""
        if place != self.place or not self.snapshot.now <= snapshot.now < self.outcome.valid_until:
            return False
        return replace(self.snapshot, now=snapshot.now) == snapshot


class KnownOutcomes:
    """Of the plans of one memory. Snapshots given to it must not be changed afterwards."""

    def __init__(self) -> None:
        self._known: tuple[_KnownOutcome, ...] = ()
        """The last one first."""

    def planner(self, place: Planner) -> Planner:
        """The planner, asked only what it has not been asked yet. Where it packs by the clock it is always
        asked: its next answer may be a better one."""
        return partial(self._outcome, place)

    def _outcome(self, place: Planner, snapshot: Snapshot) -> Outcome:
        known = next((each for each in self._known if each.answers(place, snapshot)), None)
        if known is None:
            known = _KnownOutcome(place, snapshot, place(snapshot))
        if all(group.packing == "as-queued" for group in snapshot.groups):
            others = [each for each in self._known if each is not known]
            self._known = (known, *others[: _MOST - 1])
        return known.outcome
