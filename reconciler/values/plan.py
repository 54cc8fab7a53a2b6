"""The Plan: everything that an apply will do, and why the rest is not done, as one immutable value.

There is one action type. Whether it creates, updates, replaces, deletes or does nothing follows from what it
has: `before` is
what is recorded or runs, `after` is what is desired, and a change with `forces` turns an update into a
replacement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.model.types import GroupUse, Placement, QuotaUse, Wait
from providers.base import KernelSpec
from providers.storage.base import VolumeFolder
from reconciler.values.records import Account, Ghost
from reconciler.values.rollout import Provision, Rollout
from reconciler.values.violations import Overridden, Violation

Verb = Literal["create", "update", "replace", "delete", "no-op"]


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs. `before`/`after` are rendered values (secrets already replaced by a hash);
    `forces`: it cannot change in place."""

    path: str
    before: str | None
    after: str | None
    forces: bool = False


@dataclass(frozen=True, slots=True)
class Pull:
    """An image that a node must have, and who logs in to the registry: references, never a password."""

    node: str
    image: str
    """With the digest where it is pinned."""
    policy: Literal["missing", "always"] = "missing"
    size: int = 0
    """Bytes to be transferred at most; 0 where that is not known."""
    registry: str = ""
    """Its address, where somebody logs in."""
    username: str = ""
    username_from: str = ""
    password_from: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an action: a resource at a generation, with the digest of its canonical document and the
    document itself (no secrets)."""

    generation: int
    digest: str
    document: Mapping[str, object] = field(default_factory=dict)
    phase: str = ""
    """For a session: PENDING, RUNNING, TERMINATED, ... as observed."""
    placement: Placement | None = None
    kernels: tuple[str, ...] = ()
    """Ids of the provider's kernels on this side."""
    enqueued_at: float | None = None
    """When a session joined its queue, seconds since the epoch; kept while it waits."""
    skips: int = 0
    """How often later sessions were placed before this one."""
    reason: str = ""
    """Why the phase is what it is: what a waiting session waits for, why one ended."""
    result: str = ""
    """For a finished batch session: `success` or `failure`."""
    exit_codes: Mapping[str, int] = field(default_factory=dict)
    """Kernel name → exit code, for kernels that ended."""
    specs: tuple[KernelSpec, ...] = ()
    """What to create or update, complete but for secrets; `labels.document` and `labels.placement` are
    filled in by `steps`."""
    ghosts: tuple[Ghost, ...] = ()
    """Kernels of earlier generations that may still run where nobody sees them; left out of the JSON when
    there are none."""
    account: Account | None = None
    """Whom what it holds is charged to; left out of the JSON where it holds nothing."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Variable → reference (`STORE/ENTRY`), resolved only while applying."""
    pulls: tuple[Pull, ...] = ()
    """Of a session: images that its kernels are created from. Of an image: where it is brought to. Left out
    of the JSON when there are none."""
    folder: VolumeFolder | None = None
    """Of a volume: what is made, or moved aside; left out of the JSON otherwise."""
    provision: Provision | None = None
    """Of a node: what it is brought to; left out of the JSON otherwise."""


@dataclass(frozen=True, slots=True)
class Notice:
    """How a session that is pushed out, moved or has had its time is told: `signal` first, with `grace`
    seconds to save its work, then it is stopped as usual; without `signal`, its own stop signal with that
    grace."""

    signal: str
    grace: float


@dataclass(frozen=True, slots=True)
class Action:
    """One resource's step. `id` equals the resource's identity (`Session/vision/llama-sft`), or `Kernel/<id>`
    for a kernel nobody owns."""

    id: str
    cluster: str
    before: Side | None
    after: Side | None
    changes: tuple[Change, ...] = ()
    why: str = ""
    """The cause in a few words: `new`, `spec changed`, `kernel main1 is gone`, `no longer in the repository`,
    ..."""
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

    @property
    def verb(self) -> Verb:
        if self.before is None:
            return "create" if self.after is not None else "no-op"
        if self.after is None:
            return "delete"
        never_ran = not self.before.kernels and self.before.phase in ("PENDING", "ERROR", "CANCELLED")
        if never_ran and self.after.kernels:
            return "create"
        if any(change.forces for change in self.changes):
            return "replace"
        return "update" if self.changes or self.why else "no-op"


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


@dataclass(frozen=True, slots=True)
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
    made_at: float = 0.0
    digest: str = ""

    @property
    def changes(self) -> tuple[Action, ...]:
        """The actions that do something."""
        return tuple(action for action in self.actions if action.verb != "no-op")
