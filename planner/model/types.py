"""The words of the planner: requests in, placements and waits out. All values are immutable and made of
integers and strings.

Slots are named integers in their smallest unit: `cpu` (milli-cores; an exclusive core is 1000), `mem` and
`hugepages-2Mi` (bytes), `cuda.device` (whole devices), `cuda.mig.<profile>` (instances), `cuda.shares` (milli
of the user's unit, of which a group's `Fractional.shares_per_device` make one device). A core is a physical
core: an exclusive one is given with all its threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Literal

from planner.model.huge_pages import PageGrant
from planner.model.service_replica import ServiceReplica
from planner.model.uses import GroupUse, QuotaUse

if TYPE_CHECKING:
    from schemas.hardware.model import Hardware

NumaPolicy = Literal["prefer-single-node", "interleaving"]
SlotMap = Mapping[str, int]
NodeState = Literal["active", "cordoned", "drained", "unreachable", "unprovisioned"]


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One node offered to the planner. Equal nodes share `hardware` (same object → same topology class)."""

    name: str
    hardware: Hardware
    group: str
    state: NodeState = "active"
    labels: Mapping[str, str] = field(default_factory=dict)
    reserved_cpus: tuple[int, ...] = ()
    """Logical CPUs never given to sessions."""
    reserved_memory: int = 0
    unhealthy: frozenset[str] = frozenset()
    """Device ids taken out of placement."""
    ailing: Mapping[str, str] = field(default_factory=dict)
    """Device id → why it is taken out, where that is known."""
    note: str = ""
    """Why it is in this state, where that needs saying."""


@dataclass(frozen=True, slots=True)
class Fractional:
    """A group's fractional-GPU definition. Units: milli of one device."""

    shares_per_device: int = 1
    """User units per device: 2 means that 1 fGPU is half a device."""
    quantum: int = 10
    """Milli-device step that a request is rounded up to; divides 1000."""
    spread: Literal["fill", "even"] = "fill"
    enforcement: Literal["mps", "mig", "hami", "none"] = "none"


@dataclass(frozen=True, slots=True)
class PreemptionRule:
    """That a group lets sessions push out preemptible ones of strictly lower priority."""

    minimum_run: float = 0.0
    """Seconds that a session runs before it may be pushed out."""


@dataclass(frozen=True, slots=True)
class NodeReservation:
    """Nodes kept for some projects from `starts` until before `ends` (seconds since the epoch)."""

    name: str
    nodes: frozenset[str]
    projects: frozenset[str]
    starts: float
    ends: float


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """One resource group's rules, as the planner needs them."""

    name: str
    queue: str = "fifo"
    queue_options: Mapping[str, object] = field(default_factory=dict)
    """`maxSkips` (int or None for unlimited), `pendingTimeout` (seconds), `backfill` (bool), and a plugin's
    own."""
    selection: str = "concentrated"
    packing: Literal["as-queued", "whole-queue"] = "as-queued"
    """`whole-queue`: what waits for room is tried again with all that starts in the plan packed anew."""
    packing_time_limit: int = 60
    """Seconds that packing may hold up a plan; the work that it may do goes with them."""
    numa: NumaPolicy = "prefer-single-node"
    fractional: Fractional = Fractional()
    gpudirect_storage: bool = False
    """Every NUMA node that holds an assigned device is activated: at least one core, and its memory."""
    allowed_types: frozenset[str] | None = None
    allowed_projects: frozenset[str] | None = None
    preemption: PreemptionRule | None = None
    """None: nobody is pushed out."""
    held_percent: int | None = None
    """Of each resource of its active nodes, so much may be held in it for services; None: all of it."""
    held_most: SlotMap = field(default_factory=dict)
    """Most that may be held in it; a slot that is missing is unlimited."""
    reservations: tuple[NodeReservation, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelRequest:
    """One container's demand."""

    name: str
    role: str
    index: int
    slots: SlotMap


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """One pending (or running) session as the planner sees it. Times are seconds since the epoch."""

    id: str
    group: str
    kernels: tuple[KernelRequest, ...]
    multi_node: bool = False
    type: str = "interactive"
    domain: str = ""
    project: str = ""
    user: str = ""
    priority: int = 10
    enqueued: float = 0.0
    starts_at: float | None = None
    timeout: float | None = None
    numa: NumaPolicy | None = None
    exclusive_cpus: bool = True
    """Whole cores pinned; False means shared milli-cores."""
    designated: frozenset[str] = frozenset()
    gpu_models: frozenset[str] = frozenset()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    architectures: frozenset[str] = frozenset()
    """Of machines (`x86_64`) that its images run on; any when empty."""
    blocked_by: tuple[str, ...] = ()
    """Dependencies that have not succeeded, each with its state, e.g. `Session/vision/prep (RUNNING)`."""
    depends_on: frozenset[str] = frozenset()
    """Sessions that this one needs beside it or before it; never pushed out for it."""
    preemptible: bool = False
    require_nvlink: bool = False
    """Devices of one container are joined by direct links, from each to each other over links of its own."""
    same_leaf: bool = False
    """All its nodes carry the same `bai/leaf` label."""
    skips: int = 0
    """How often later sessions were placed before this one in earlier runs."""
    replica_of: ServiceReplica | None = None


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """A device, or part of one. `milli` is 1000 for a whole device."""

    id: str
    slot: str
    milli: int = 1000


@dataclass(frozen=True, slots=True)
class PortGrant:
    """A port of a node that a kernel holds: published there, or, on the node's own network, to listen on."""

    name: str
    """Of the session's port; `ssh` and `master` are bai's own."""
    port: int
    """As the session's document names it."""
    on: int
    """The node's port."""
    udp: bool = False


@dataclass(frozen=True, slots=True)
class NumaPart:
    """What a kernel takes on one NUMA node: milli-cores (exclusive or shared) and bytes."""

    node: int
    cpu_milli: int
    memory: int


@dataclass(frozen=True)
class KernelPlacement:
    """Where one kernel sits, exactly."""

    kernel: str
    node: str
    cpus: tuple[int, ...]
    """Logical CPUs, ascending, SMT siblings together; empty for shared CPU."""
    cpu_milli: int
    memory_nodes: tuple[int, ...]
    memory: int
    """Bytes."""
    devices: tuple[DeviceGrant, ...] = ()
    nics: tuple[str, ...] = ()
    parts: tuple[NumaPart, ...] = ()
    """Cores and memory by NUMA node; empty means: evenly over `memory_nodes`."""
    network: Literal["", "default", "host", "bridge", "overlay", "pods"] = ""
    """How it is connected; empty where its provider has but one way."""
    ports: tuple[PortGrant, ...] = ()
    hugepages: tuple[PageGrant, ...] = ()

    def listening(self, port: int) -> int:
        """Where it really serves a port that its document names: another one on its node's own network,
        perhaps."""
        if self.network != "host":
            return port
        return next((grant.on for grant in self.ports if grant.port == port), port)


@dataclass(frozen=True, slots=True)
class Choice:
    """Why this node and mapping: scores in the strategy's own units, and the next best node."""

    strategy: str
    score: str
    runner_up: str = ""
    numa_nodes: int = 1
    detail: str = ""
    """What else a reader of the plan should know: leaf switches, what is borrowed."""
    connection: str = ""
    """How the devices of its first container are connected; left out of the JSON of a plan where it says
    nothing."""

    @property
    def notes(self) -> str:
        """Both."""
        return "; ".join(part for part in (self.detail, self.connection) if part)


@dataclass(frozen=True, slots=True)
class Placement:
    session: str
    group: str
    kernels: tuple[KernelPlacement, ...]
    choice: Choice | None = None
    lent: tuple[str, ...] = ()
    """The held places (ids) of services that it was lent: it gives way to their replicas. Left out of the
    JSON where there are none."""


@dataclass(frozen=True, slots=True, order=True)
class Reason:
    """One thing that holds a session back: a stable `code` (`quota`, `no-capacity`, ...), and the numbers."""

    code: str
    message: str
    lacks: str = ""
    """What there is too little of, for everybody whom it holds back: `GPUs`, `quota vision-gpus`; empty where
    that is not one thing. Left out of the JSON then."""


HELD = "held"
"""The code of sessions that are kept out of their queues by somebody's will."""


@dataclass(frozen=True)
class Wait:
    session: str
    group: str
    position: int
    """Place in its group's queue, from 1; 0 for who cannot be queued at all."""
    reasons: tuple[Reason, ...]
    freed_by: str = ""
    """What would free it first: a running session's id, or empty."""
    latest: float | None = None
    """When at the latest it fits, from the timeouts of what runs and of who waits for room before it; None
    when unknown."""
    cut_short: bool = False
    """Whether the search for what would free it ended before all was played through."""
    passed_over: bool = False
    """Whether later sessions were placed before it in this plan."""
    skips: int = 0
    """How often later sessions were placed before it, this plan included: the next plan's
    `SessionRequest.skips`."""

    @property
    def is_held(self) -> bool:
        """Whether somebody keeps it out of its queue, so that its waiting is no trouble."""
        return any(reason.code == HELD for reason in self.reasons)


@dataclass(frozen=True, slots=True)
class Eviction:
    """A running session that has to make room for another, and why it may be pushed out."""

    session: str
    group: str
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """One quota applied to one subject. A slot that is missing is unlimited, or zero when `unspecified` is
    `zero`."""

    name: str
    subject_kind: Literal["domain", "project", "user", "cluster"]
    """`cluster`: all that have a project, together; the subject is the cluster's name."""
    subject: str
    group: str | None = None
    slots: SlotMap = field(default_factory=dict)
    per_session: SlotMap = field(default_factory=dict)
    unspecified: Literal["unlimited", "zero"] = "unlimited"
    concurrent: int | None = None
    pending: int | None = None
    kernels_per_session: int | None = None
    max_priority: int | None = None
    max_lifetime: float | None = None
    cohort: str | None = None
    """Quotas of one cohort, kind of subject and group lend each other what they do not use."""
    borrowing: SlotMap | None = None
    """Most that may be borrowed, a slot that is missing not at all; None: whatever is unused."""
    others: SlotMap | None = None
    """What others than sessions use of it, where the world holds pods to it, such as a ResourceQuota: the
    slots `pods` and `resourceclaims` count then, too. None: a quota that bai alone keeps."""
    per_kernel: SlotMap = field(default_factory=dict)
    """Most that one kernel may ask for."""
    per_kernel_least: SlotMap = field(default_factory=dict)
    """Least that one kernel has to ask for, where it asks for any."""


@dataclass(frozen=True, slots=True)
class Running:
    """A session that holds resources now."""

    request: SessionRequest
    placement: Placement
    started: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a placement depends on."""

    nodes: tuple[NodeInfo, ...]
    groups: tuple[GroupInfo, ...]
    quotas: tuple[QuotaLimit, ...] = ()
    running: tuple[Running, ...] = ()
    pending: tuple[SessionRequest, ...] = ()
    """Places to be held (`ServiceReplica.held`) among them."""
    now: float = 0.0
    usage: Mapping[str, float] = field(default_factory=dict)
    """User → dominant share × seconds of sessions that ended, decayed to `now`; the `fair-share` queue's."""
    disruptions: Mapping[str, int] = field(default_factory=dict)
    """Service → how many of its replicas may be pushed out; one that is not named: any number."""
    held: tuple[Running, ...] = ()
    """Places that are held for services already."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `place(snapshot)` says: every pending session is in exactly one of `placements` and `waits`."""

    placements: tuple[Placement, ...]
    waits: tuple[Wait, ...]
    quotas: tuple[QuotaUse, ...] = ()
    groups: tuple[GroupUse, ...] = ()
    warnings: tuple[str, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    """Running sessions that the placements count on being gone."""
    valid_until: float = inf
    """Until when, in seconds since the epoch, the same snapshot at a later time has the same outcome; at the
    earliest the snapshot's own time, and never, where nothing in it waits for a time."""
    held: tuple[Running, ...] = ()
    """Places that are held for services from now on."""
    unheld: tuple[Wait, ...] = ()
    """Places that are wanted and cannot be held."""

    def counted_from(self, start: Outcome) -> Outcome:
        """The same, with what is used before the plan as `start` has it."""
        quotas = {(use.quota, use.subject): use.before for use in start.quotas}
        groups = {use.group: (use.before, use.fits_before) for use in start.groups}
        counted = []
        for use in self.groups:
            before, fits = groups.get(use.group, (use.before, use.fits_before))
            counted.append(replace(use, before=before, fits_before=fits))
        return replace(
            self,
            quotas=tuple(
                replace(use, before=quotas.get((use.quota, use.subject), use.before)) for use in self.quotas
            ),
            groups=tuple(counted),
        )
