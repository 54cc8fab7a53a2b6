"""What an apply says while it goes on (`ApplyEvent`) and when it is over (`ApplyResult`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from providers.images import PullProgress
from providers.provisioning import ProvisionEvent

Outcome = Literal["done", "failed", "skipped", "stopped"]
"""`skipped`: something it depends on did not come about; `stopped`: the apply was interrupted before or while
doing it."""


@dataclass(frozen=True, slots=True)
class ApplyEvent:
    """Progress, in the order in which it was written down. Called from the thread that called `apply`."""

    kind: Literal["begin", "action", "step", "progress", "retry", "end"]
    """`begin`/`end`: the apply itself; `action`: an action started or ended; `step`: one step of it did;
    `progress`: a step has come further; `retry`: a step is tried again."""
    at: float = 0.0
    action: str = ""
    verb: str = ""
    state: Literal["started", "done", "failed", "skipped", "stopped"] = "started"
    step: str = ""
    """E.g. `create llama-main1-…`."""
    kernel: str = ""
    error: str = ""
    pull: PullProgress | None = None
    """How far an image has come."""
    node: ProvisionEvent | None = None
    """What the provisioning of a node tells."""
    connections: int | None = None
    """How many a replica that is drained still has."""
    done: int = 0
    """Actions that have ended."""
    total: int = 0


@dataclass(frozen=True, slots=True)
class ActionResult:
    """How one action ended. `error` says why it failed; `because` names the action that kept a skipped one
    from starting."""

    action: str
    verb: str
    outcome: Outcome
    error: str = ""
    because: str = ""
    started: float | None = None
    finished: float | None = None
    draining: bool = False
    """Stopped because a replica still has connections, and time for them: the next apply goes on."""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """All actions of a plan with their ends, in the plan's order."""

    apply: str
    """Id under which the journal has it."""
    plan: str
    """Digest of the plan."""
    results: tuple[ActionResult, ...] = ()
    started: float = 0.0
    finished: float = 0.0
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Everything in the plan was done, but for replicas that are drained."""
        return all(result.outcome == "done" or result.draining for result in self.results)

    def count(self, outcome: Outcome) -> int:
        return sum(result.outcome == outcome for result in self.results)
