"""What one pass of a loop saw, decided and did, as a value for whoever watches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.values.plan import Plan
from reconciler.values.results import ApplyResult
from reconciler.values.state import Actual
from reconciler.values.violations import Violation
from reconciler.workspace.workspace import Workspace
from schemas.problems.errors import (
    BaiError,
    CannotRead,
    InvalidRepository,
    LeaseHeld,
    NotTrusted,
    RemoteError,
)


@dataclass(frozen=True)
class Pass:
    """Times are seconds since the epoch. What a pass that failed did not come to is None."""

    workspace: Workspace
    began: float
    ended: float = 0.0
    good: bool = False
    """Whether nothing was wrong."""
    actual: Actual | None = None
    """What was seen last: after an apply, what came of it."""
    plan: Plan | None = None
    result: ApplyResult | None = None
    violations: tuple[Violation, ...] = ()
    """Why the pass left resources as they are, though the documents say otherwise."""
    notes: tuple[str, ...] = ()
    """What was said that lasts: why sessions wait, what is wrong, what holds by order."""
    signs: Mapping[str, str] = field(default_factory=dict)
    """Of documents and of the loop itself, what people are told while it lasts, by class of events."""
    by: str = ""
    """Whose it was, where another replica leads and this is what the store has of it (`standby.py`)."""


def signs_of(error: BaiError, words: str) -> Mapping[str, str]:
    """What a pass that failed with it tells people; nothing while somebody else applies."""
    if isinstance(error, LeaseHeld):
        return {}
    if isinstance(error, InvalidRepository | CannotRead | NotTrusted):
        return {"documents-refused": words}
    return {"documents-unreachable" if isinstance(error, RemoteError) else "loop-failed": words}
