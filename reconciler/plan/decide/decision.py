"""What one session needs from a plan. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from planner.model.types import Placement
from reconciler.values.changes.cause import Cause
from reconciler.values.changes.change import Change
from reconciler.values.state import Existing
from schemas.kinds.session import Session

Need = Literal["keep", "repair", "place", "resize", "finish", "stop", "away", "ended", "delete"]
"""`keep`: as it is, perhaps with new labels; `repair`: same placement, some kernels made or updated again;
`place`: the planner decides (a new, waiting or replaced session); `resize`: the planner decides about more
or less on the same node; `finish`: its main container ended, the others are stopped; `stop`: it has had its
time; `away`: its node cannot be reached, and is waited for; `ended`: nothing runs and nothing will;
`delete`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One session's need. `placement` is what it holds while others are placed; `changes` are marked with
    what forces a replacement."""

    id: str
    need: Need
    session: Session | None
    existing: Existing | None
    changes: tuple[Change, ...] = ()
    cause: Cause | None = None
    """None where it stays as it is, or only waits on."""
    placement: Placement | None = None
    generation: int = 1

    @property
    def replaces(self) -> bool:
        """Whether kernels that exist must go first."""
        return any(change.forces for change in self.changes)


@dataclass(frozen=True, slots=True)
class Decisions:
    """Made by `decide_sessions`; read by `place_sessions` (who is to be placed), by `make_actions` (what is
    done about each) and by `seal_plan` (what is said)."""

    sessions: Mapping[str, Decision]
    """One for each session that is desired or exists, by identity."""
    notes: tuple[str, ...] = ()
    """Sessions that ended in ERROR, and drains that somebody blocks."""
