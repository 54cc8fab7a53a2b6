"""What a simulation is given and what it gives. Times are virtual seconds on the clock of the trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.model.types import GroupInfo, NodeInfo, QuotaLimit, SessionRequest, SlotMap

JobState = Literal["finished", "running", "waiting", "gave-up"]


@dataclass(frozen=True, slots=True)
class Job:
    """A session of a trace: what it asks for (`request.enqueued` is its arrival), and for how long it runs
    once it is placed."""

    request: SessionRequest
    duration: float
    checkpoint: bool = False
    """Pushed out, it goes on where it was; otherwise it starts over."""

    @property
    def arrival(self) -> float:
        return self.request.enqueued


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a trace is replayed: nothing runs there at first."""

    nodes: tuple[NodeInfo, ...]
    groups: tuple[GroupInfo, ...]
    quotas: tuple[QuotaLimit, ...] = ()


@dataclass(slots=True)
class JobResult:
    """What became of one session."""

    job: Job
    state: JobState = "waiting"
    started: float | None = None
    """When it was first placed."""
    ended: float | None = None
    evictions: int = 0
    numa_nodes: int = 0
    """Most NUMA nodes of one of its containers, where it was placed last."""
    fewest: int = 0
    """On how many it would be placed if nothing else were there; 0 where it could not."""
    lost: float = 0.0
    """Seconds that it ran for nothing, because it was pushed out."""
    reasons: tuple[str, ...] = ()
    """Codes of what it waits for in the end."""

    @property
    def wait(self) -> float | None:
        """Seconds from its arrival to its first start."""
        return None if self.started is None else self.started - self.job.arrival


@dataclass(slots=True)
class Samples:
    """The cluster after each event; a value holds until the next one. Devices count in milli."""

    at: list[float] = field(default_factory=list)
    devices: list[int] = field(default_factory=list)
    """Allocated."""
    cpu: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    fragmented: list[int] = field(default_factory=list)
    """Free, on nodes of which other devices (or parts of devices) are taken."""
    largest: list[int] = field(default_factory=list)
    """Most whole devices free on one node, in devices."""
    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Replay:
    """One trace under one policy."""

    results: tuple[JobResult, ...]
    samples: Samples
    capacity: SlotMap
    """`cpu` and `devices` in milli, `mem` in bytes, over the active nodes of all groups."""
    begin: float
    end: float
    settled: float
    """When the last session arrived or first started, whichever was later: from then on things only end.
    The end itself where the replay was cut short."""
    decisions: int
    """How often the planner was asked."""
    causes: Mapping[str, int] = field(default_factory=dict)
    """Code of a reason → sessions that never started and still wait for it."""
