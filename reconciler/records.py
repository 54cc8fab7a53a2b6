"""What the store remembers, as values: resources, leases, journal entries, events.

`Store.write` takes any mix of `Put`, `Forget`, `Event` and `JournalEntry` and writes all of it, or nothing,
in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.types import Placement

Phase = Literal[
    "",
    "PENDING",
    "SCHEDULED",
    "PREPARING",
    "CREATING",
    "RUNNING",
    "TERMINATING",
    "TERMINATED",
    "ERROR",
    "CANCELLED",
]
"""A session's phase; empty for every other kind."""
Result = Literal["", "success", "failure"]
JournalState = Literal["intent", "done", "failed"]

HOLDING: frozenset[str] = frozenset({"SCHEDULED", "PREPARING", "CREATING", "RUNNING", "TERMINATING"})
"""Phases in which a session holds the devices of its placement."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One resource as it was last decided and applied. Times are seconds since the epoch."""

    resource: str
    """Identity, e.g. `Session/vision/llama-sft`."""
    cluster: str
    generation: int
    digest: str
    """Digest of `document`."""
    document: Mapping[str, object] = field(default_factory=dict)
    """Canonical document, no secrets."""
    phase: Phase = ""
    placement: Placement | None = None
    kernels: tuple[str, ...] = ()
    """Ids of the provider's kernels that this generation owns (or is about to)."""
    protected: bool = False
    commit: str = ""
    enqueued_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    result: Result = ""
    exit_codes: Mapping[str, int] = field(default_factory=dict)
    """Kernel name (`main1`) to exit code, once known."""
    skips: int = 0
    reason: str = ""
    """Why it is in this phase, where that needs saying."""


@dataclass(frozen=True, slots=True)
class Put:
    """Remember this resource, replacing what was recorded under its identity."""

    record: Recorded


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop a resource's record; forgetting what is not recorded is a no-op."""

    resource: str


@dataclass(frozen=True, slots=True)
class Event:
    """One transition of one resource. `seq` is given by the store, ascending."""

    resource: str
    before: str
    """Phase before; empty when there was none."""
    after: str
    cause: str
    """Why, in words: `spec changed`, `kernel main1 exited with 1`."""
    at: float
    actor: str = ""
    """Who: the lease holder, a commit's author, a node failure."""
    commit: str = ""
    seq: int = 0


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One line of an apply's journal: a step is about to happen, has happened, or has failed."""

    apply: str
    action: str
    step: str
    """Name of the step within its action: `create llama-main1-…`."""
    kind: str
    kernel: str
    state: JournalState
    at: float
    error: str = ""
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write one cluster's records. `token` only ever grows: an older one is refused at every
    write."""

    cluster: str
    holder: str
    token: int
    ttl: float
    """Seconds from the last renewal."""
    acquired: float
    expires: float
    process: str = ""
    """The process that holds it (see `alive.py`); empty when not known."""


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """A node's hardware as last probed: the probe's JSON and when."""

    node: str
    cluster: str
    hardware: str
    at: float


StoreChange = Put | Forget | Event | JournalEntry
