"""The Plan: everything that an apply will do, and why the rest is not done, as one immutable value.

There is one action type. Whether it creates, updates, replaces, deletes or does nothing follows from what it
has: `before` is
what is recorded or runs, `after` is what is desired, and a change with `forces` turns an update into a
replacement. Where nothing is done, there is no cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from planner.model.types import Placement, Wait
from planner.model.uses import GroupUse, QuotaUse
from providers.autoscaling.values import NodeRequest
from reconciler.values.changes.cause import Cause
from reconciler.values.changes.change import Change
from reconciler.values.records import Ghost
from reconciler.values.rollout import Provision, Rollout
from reconciler.values.services.status import ServiceStatus
from reconciler.values.sides import AnySide, ImageSide, NodeSide, Pull, SessionSide
from reconciler.values.violations import Overridden, Violation

Verb = Literal["create", "update", "replace", "delete", "no-op"]


@dataclass(frozen=True, slots=True)
class Notice:
    """How a session that is pushed out, moved or has had its time is told: `signal` first, with `grace`
    seconds to save its work, then it is stopped as usual; without `signal`, its own stop signal with that
    grace."""

    signal: str
    grace: float


@dataclass(frozen=True)
class Action:
    """One resource's step. `id` equals the resource's identity (`Session/vision/llama-sft`), or `Kernel/<id>`
    for a kernel nobody owns."""

    id: str
    cluster: str
    before: AnySide | None
    after: AnySide | None
    changes: tuple[Change, ...] = ()
    cause: Cause | None = None
    """None where nothing is done. In the JSON it is a code, left out where there is none, and `why` is its
    text."""
    depends_on: tuple[str, ...] = ()
    protected: bool = False
    warnings: tuple[str, ...] = ()
    """E.g. limits that this provider does not enforce."""
    notice: Notice | None = None
    """For a session that makes room for another or is moved; left out of the JSON otherwise."""
    in_turn: str = ""
    """The action that must be done before this one stops anything; left out of the JSON when empty."""
    ghosts: tuple[Ghost, ...] = ()
    """For a deletion: kernels that cannot be reached. Its record stays until they are gone; left out of the
    JSON when there are none."""

    @cached_property
    def verb(self) -> Verb:
        if self.before is None:
            return "create" if self.after is not None else "no-op"
        if self.after is None:
            return "delete"
        if self._starts_first_time():
            return "create"
        if any(change.forces for change in self.changes):
            return "replace"
        return "update" if self.changes or self.cause is not None else "no-op"

    def _starts_first_time(self) -> bool:
        before, after = self.session_before, self.session_after
        never_ran = before and not before.kernels and before.phase in ("PENDING", "ERROR", "CANCELLED")
        return bool(never_ran and after and after.kernels)

    @property
    def why(self) -> str:
        """The cause in words; empty where nothing is done."""
        return self.cause.text if self.cause else ""

    @property
    def session_before(self) -> SessionSide | None:
        """The session, or the kernel nobody owns, as it is."""
        return self.before if isinstance(self.before, SessionSide) else None

    @property
    def session_after(self) -> SessionSide | None:
        """The session as it is to be."""
        return self.after if isinstance(self.after, SessionSide) else None

    @property
    def placement_before(self) -> Placement | None:
        """Where the session is."""
        return self.session_before.placement if self.session_before else None

    @property
    def placement_after(self) -> Placement | None:
        """Where the session is to be."""
        return self.session_after.placement if self.session_after else None

    @property
    def pulls(self) -> tuple[Pull, ...]:
        """The images that its nodes must have afterwards."""
        return self.after.pulls if isinstance(self.after, SessionSide | ImageSide) else ()

    @property
    def provision(self) -> Provision | None:
        """What the node is to be brought to."""
        return self.after.provision if isinstance(self.after, NodeSide) else None


@dataclass(frozen=True, slots=True)
class Drift:
    """Something found different from what was recorded, before any change of documents is considered."""

    resource: str
    what: str
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class Unreached:
    """A node that could not be asked, why, and since when (seconds since the epoch; None: first noticed
    now)."""

    node: str
    why: str
    since: float | None = None


@dataclass(frozen=True)
class Plan:
    """A reviewed, applicable value. `digest` covers everything an apply depends on except `made_at`; same
    inputs, same bytes."""

    repo: str
    cluster: str
    commit: str
    """Commit of the desired documents; empty for an uncommitted directory, whose `tree` digest stands
    alone."""
    tree: str
    """Digest of all desired documents."""
    basis: str
    """Digest of the actual state that the plan was made from: apply refuses when it has changed."""
    complete: bool
    """False when something could not be observed: nothing is deleted then."""
    actions: tuple[Action, ...]
    waits: tuple[Wait, ...] = ()
    drifts: tuple[Drift, ...] = ()
    quotas: tuple[QuotaUse, ...] = ()
    groups: tuple[GroupUse, ...] = ()
    warnings: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    unreached: tuple[Unreached, ...] = ()
    """Left out of the JSON when all nodes answered."""
    rollout: Rollout | None = None
    """The provisioning of nodes; left out of the JSON when there is none to be done."""
    violations: tuple[Violation, ...] = ()
    """Why it is not carried out; left out of the JSON where nothing stands against it."""
    overridden: tuple[Overridden, ...] = ()
    """What would stand against it but for annotations; left out of the JSON when there is nothing."""
    node_requests: tuple[NodeRequest, ...] = ()
    """Nodes that the loop asks an autoscaler for; left out of the JSON when there are none."""
    services: tuple[ServiceStatus, ...] = ()
    """How each service stands, by identity; left out of the JSON when there are none."""
    made_at: float = 0.0
    digest: str = ""

    @cached_property
    def changes(self) -> tuple[Action, ...]:
        """The actions that do something."""
        return tuple(action for action in self.actions if action.verb != "no-op")
