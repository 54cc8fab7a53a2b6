"""What the store remembers, as values: resources, leases, journal entries, events.

`Store.write` takes any mix of `StoreChange` and writes all of it, or nothing, in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from reconciler.values.services.state import NO_STATE, RolloutOrder, ServiceState
from reconciler.values.times import age

if TYPE_CHECKING:
    from planner.model.types import Placement

Phase = Literal[
    "",
    "PENDING",
    "SCHEDULED",
    "PREPARING",
    "PULLING",
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

HOLDING: frozenset[str] = frozenset(
    {"SCHEDULED", "PREPARING", "PULLING", "CREATING", "RUNNING", "TERMINATING"}
)
"""Phases in which a session holds the devices of its placement."""


@dataclass(frozen=True, slots=True)
class Ghost:
    """A kernel of an earlier generation on a node that cannot be reached: it may run, or not. It goes first
    when the node is back."""

    kernel: str
    node: str
    generation: int


@dataclass(frozen=True, slots=True)
class Account:
    """On whose account a placement goes: `share` is its dominant share of its group, `half_life` (seconds)
    the group's."""

    user: str
    share: float
    half_life: float


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
    ghosts: tuple[Ghost, ...] = ()
    account: Account | None = None
    """None before it was placed, and where the record was made from labels."""
    service: ServiceState = NO_STATE
    """Of a service; empty for every other kind."""
    app_ports: Mapping[str, int] = field(default_factory=dict)
    """Of an AppProxy: app (identity of its session or service, a space, its name) → port of the host."""


@dataclass(frozen=True, slots=True)
class PutRecord:
    """Remember this resource, replacing what was recorded under its identity."""

    record: Recorded


@dataclass(frozen=True, slots=True)
class ForgetRecord:
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
    result: Result = ""
    """Of a batch session that has ended."""
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
    """The process that holds it (see `reconciler.store.database.process_identity`); empty when not known."""


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """A node's hardware as last probed: the probe's JSON and when."""

    node: str
    cluster: str
    hardware: str
    at: float


@dataclass(frozen=True, slots=True)
class EnforcementRecord:
    """Whether a part of a GPU was held to its limit on a node, when that was tried last. It counts as long as
    what enforced it there is this `version` of driver and library."""

    node: str
    means: str
    version: str
    outcome: Literal["held", "failed", "untested"]
    why: str
    """What was seen, in words."""
    at: float = 0.0


ProvisionState = Literal["", "provisioning", "failed", "ready"]
"""`provisioning`: somebody is at it, or died over it; empty: never heard of."""


@dataclass(frozen=True, slots=True)
class ProvisionRecord:
    """How far a node's provisioning has come, and its condition as it was last seen. Only `ready` nodes, and
    those that were sealed before this store was made, take sessions."""

    node: str
    state: ProvisionState = ""
    profile: str = ""
    fingerprint: str = ""
    """What it was last brought to, or was to be."""
    why: str = ""
    """Why it failed; what was done, when it is ready."""
    at: float = 0.0
    """Since when it is in this state."""
    condition: str = ""
    """`providers.condition.values.NodeCondition` as JSON; empty when it was never looked at."""
    seen: float | None = None
    """When its condition was last found to be another one."""


ALL_NODES = ""
"""In place of a node's name: when all nodes that there were had once been reached. From then on the store
knows of everything that was ever placed, also on nodes that join later."""


@dataclass(frozen=True, slots=True)
class Contact:
    """A node that is reached (`lost` None), or was first missed at `lost`, and why. `reached` is None while
    this store has never seen it reached."""

    node: str
    reached: float | None = None
    lost: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Consumption:
    """What was used in all, as far as somebody measured; None is not known."""

    cpu: float | None = None
    """Seconds of CPU, those before restarts included."""
    memory: int | None = None
    """Most bytes that were seen in use at a time."""
    gpu_busy: float = 0.0
    """Seconds that GPUs were busy, those of several GPUs added up."""
    gpu_measured: float = 0.0
    """Of so many seconds of GPUs."""
    until: float | None = None
    """When it was last measured; None: never."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a kernel had used by a moment; None is not known."""

    at: float
    cpu: float | None = None
    """Seconds of CPU since its start."""
    network: int | None = None
    """Bytes in and out since its start."""
    gpu: float | None = None
    """Percent that its busiest GPU was busy."""
    total: Consumption = Consumption()
    """All that it is known to have used by then, also by samples that are not kept any more."""


@dataclass(frozen=True, slots=True)
class SampleChange:
    """Samples of one kernel to drop (by their times; None: all) and to add."""

    kernel: str
    drop: tuple[float, ...] | None = ()
    add: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class Charge:
    """What a session held from `started` to `ended` goes on its user's account."""

    account: Account
    started: float
    ended: float


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a session held from `started` to `ended`, all of that time the same; times are seconds since the
    epoch. The store adds what was `used`."""

    session: str
    """Its identity."""
    generation: int
    user: str
    """On whose account it went, or whom its document names; empty where neither is known."""
    began: float
    """When its containers started: of one start, all allocations have the same."""
    started: float
    ended: float
    cpu: int
    """Milli-cores."""
    memory: int
    """Bytes."""
    devices: Mapping[str, int] = field(default_factory=dict)
    """Thousandths of devices, or of MIG instances, by slot."""
    kernels: tuple[str, ...] = ()
    """Ids of the kernels that held it; not kept."""
    used: Consumption = Consumption()
    """From `began` on, by what its kernels are known to have used."""


@dataclass(frozen=True, slots=True)
class Balance:
    """What a user's ended sessions used, decayed to `at`."""

    value: float
    at: float
    half_life: float

    def decayed(self, now: float) -> float:
        """The same at a later time; at an earlier one, it is what it is."""
        return self.value * float(2.0 ** (-age(self.at, now) / self.half_life))


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of a document, or of where a session is; None where there was or is nothing."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Audit:
    """Who changed what of one resource (or, with an empty `resource`, of a cluster as a whole), from which
    commit, by which plan. Kept for good."""

    verb: str
    """`create`, `update`, `replace`, `delete`, `failed`, `override` (of a Policy); `download` and `upload` of
    files; `propose` of a change that was pushed; `apply`, `unlock`, `rebuild`, `restore`, `move`;
    `open-terminal`, `close-terminal`; `share-app` and `open-link` of links to apps."""
    resource: str
    at: float
    cause: str = ""
    actor: str = ""
    """Empty: the holder of the lease."""
    commit: str = ""
    plan: str = ""
    """Digest of the plan."""
    apply: str = ""
    before: str = ""
    """Digest of the document before; empty when there was none."""
    after: str = ""
    changes: tuple[FieldChange, ...] = ()
    seq: int = 0


@dataclass(frozen=True, slots=True)
class ClusterRecords:
    """All that is written down of one cluster and decisions rest on, as of one moment."""

    recorded: Mapping[str, Recorded]
    """By identity, in the order of identities."""
    contacts: Mapping[str, Contact]
    samples: Mapping[str, tuple[Sample, ...]]
    balances: Mapping[str, Balance]
    provision_records: Mapping[str, ProvisionRecord]
    rollout_orders: Mapping[str, RolloutOrder]
    """By service."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What sessions held during a time, as of one moment."""

    ended: tuple[Allocation, ...]
    recorded: Mapping[str, Recorded]
    """All sessions (or the one that was asked for) as they are now, those that still hold something among
    them."""
    complete_since: float | None = None
    """What ended before may be missing; None: nothing is."""


StoreChange = (
    PutRecord
    | ForgetRecord
    | Event
    | JournalEntry
    | Contact
    | SampleChange
    | Charge
    | Allocation
    | ProvisionRecord
    | NodeObservation
    | Audit
)
