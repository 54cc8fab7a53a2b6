"""One reconcile cycle of a loop: what it saw, decided and did, as a value for whoever watches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.model.types import Wait
from reconciler.values.plan import Plan
from reconciler.values.results import ApplyResult
from reconciler.values.state import Actual, Desired
from reconciler.values.violations import Violation
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.git_remote import NotTrusted, RemoteError
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from schemas.problems.errors.store import LeaseHeld
from schemas.repository.repository import Repository
from schemas.values.once_per_value import once_per_value

if TYPE_CHECKING:
    from reconciler.plan.study import Study


@dataclass(frozen=True)
class ReconcileCycle:
    """Times are seconds since the epoch. What a pass that failed did not come to is None."""

    cluster: str
    commit: str
    """That the documents in force are from; empty for a folder's files."""
    repository: Repository
    began: float
    ended: float = 0.0
    good: bool = False
    """Whether nothing was wrong."""
    desired: Desired | None = None
    actual: Actual | None = None
    """What was seen last: after an apply, what came of it."""
    plan: Plan | None = None
    study: Study | None = None
    """What the first plan of the pass was made in, that of everything but what is left alone after failures;
    the same object for as long as it is the same plan."""
    result: ApplyResult | None = None
    violations: tuple[Violation, ...] = ()
    """Why the pass left resources as they are, though the documents say otherwise."""
    notes: tuple[str, ...] = ()
    """What was said that lasts: why sessions wait, what is wrong, what holds by order."""
    signs: Mapping[str, str] = field(default_factory=dict)
    """Of documents and of the loop itself, what people are told while it lasts, by class of events."""
    by: str = ""
    """Whose it was, where another replica leads and this is what the store has of it (`standby.py`)."""


def error_signs(error: BaiError, text: str) -> Mapping[str, str]:
    """What a pass that failed with it tells people; nothing while somebody else applies."""
    if isinstance(error, LeaseHeld):
        return {}
    if isinstance(error, InvalidRepository | CannotRead | NotTrusted):
        return {"documents-refused": text}
    return {"documents-unreachable" if isinstance(error, RemoteError) else "loop-failed": text}


@once_per_value
def wait_line(wait: Wait) -> str:
    """Who waits, and by which kinds of reasons."""
    return f"{wait.session} waits: {', '.join(sorted({one.code for one in wait.reasons}))}"
