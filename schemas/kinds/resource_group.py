"""ResourceGroup: a partition of nodes with its own queue and placement rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.kinds.parts.docker import Capability
from schemas.kinds.parts.resources import Slots
from schemas.values.envelope import Count, Flag, Model, Positive, Resource
from schemas.values.names import LabelKey, LabelValue, Name, NodeName, Sharer, Text
from schemas.values.quantities import Cpu, Duration, Memory, Percent, Shares, Timestamp

NumaPolicy = Literal["prefer-single-node", "interleaving"]
SessionType = Literal["interactive", "batch", "inference", "system"]


class Fractional(Model):
    """How one GPU is divided."""

    shares_per_device: Annotated[Positive, Field(le=1000)] = 1
    """How many `cuda.shares` one device is: with 2, one share is half a device."""
    quantum: Annotated[Shares, Field(ge=1, le=1000)] = 10
    """Step that a request is rounded up to, as a part of a device (`0.05`); divides a whole device."""
    largest: Annotated[Shares, Field(ge=1, le=1000)] = 1000
    """Largest part of a device that a container may ask for (`0.5`)."""
    spread: Literal["fill", "even"] = "fill"
    """`fill` one device before the next, or spread `even`ly."""
    enforcement: Literal["mps", "mig", "hami", "none"] = "none"
    """What holds a session to its part. Sessions get parts only on nodes that have it; with `none`, nothing
    does."""
    min_cpu: Cpu | None = None
    """Least CPU of a container for each GPU of which it has any part; a session with less is refused."""


class QueueOptions(Model):
    """Options of the queue."""

    max_skips: Count | None = None
    """How often later sessions may pass the head of the line; unlimited when left out."""
    pending_timeout: Duration | None = None
    """After this long a waiting session is cancelled."""
    backfill: Flag = False
    """Later sessions may run when they delay nobody."""
    weights: Mapping[Sharer, Positive] = {}
    """`drf`, `fair-share`: parts of users (`user/ada: 2`), with `hierarchy` also of domains and projects; 1
    when left out."""
    hierarchy: Flag = False
    """`drf`: domains share first, in each its projects, in each of those its users."""
    half_life: Annotated[Duration, Field(ge=1)] | None = None
    """`fair-share`: after this long use counts half; a week when left out."""
    plugin: Mapping[Text, Any] = {}
    """Options of a queue that is a plugin."""


class Preemption(Model):
    """Who may push out whom."""

    mode: Literal["none", "priority"] = "none"
    """`priority`: a session without room pushes out preemptible ones of strictly lower priority."""
    grace: Duration = 120
    """How long a session that names no `checkpoint` has to end by itself."""
    minimum_run_time: Duration = 0
    """Nobody is pushed out before it has run for so long."""


class HeadroomBound(Model):
    """How much may be held for services (`Service.spec.headroom`) in the group in all; within their quotas
    any amount when both are left out."""

    percent: Percent | None = None
    """Of each resource of its active nodes (`20%`); `0%` for none."""
    total: Slots = Slots()
    """Most that is held; a slot that is not named is unlimited."""


class NodeLoss(Model):
    """What becomes of sessions on a node that cannot be reached."""

    after: Duration = 120
    """How long the node must have been out of reach."""
    then: Literal["wait", "reschedule"] = "wait"
    """`reschedule`: start it again elsewhere, though the old one may still run unseen until the node is back;
    `wait`: for the node."""


class ScratchLimits(Model):
    """Room on a node's disk for the own files of one container."""

    default: Annotated[Memory, Field(ge=1024 * 1024, le=2**60)] | None = None
    """For containers that name none; `max` when left out."""
    max: Annotated[Memory, Field(ge=1024 * 1024, le=2**60)] | None = None
    """What one may ask for at most; any amount when left out."""

    @property
    def default_bytes(self) -> int:
        """Bytes for a container that names none; 0 for any amount."""
        return self.default or self.max or 0


class Reservation(Model):
    """Nodes kept for projects during a time; what runs there when it begins is left alone."""

    name: Name
    nodes: Annotated[tuple[NodeName, ...], Field(min_length=1)]
    projects: Annotated[tuple[Name, ...], Field(min_length=1)]
    starts_at: Timestamp
    ends_at: Timestamp


class ResourceGroupSpec(Model):
    cluster: Name | None = None
    """May be left out when the repository has exactly one Cluster."""
    node_selector: Mapping[LabelKey, LabelValue] = {}
    """Nodes that name no group belong here when they carry all these labels."""
    queue: Name = "fifo"
    """`fifo`, `lifo`, `drf`, `fair-share`, or a plugin's name: whose turn it is."""
    queue_options: QueueOptions = QueueOptions()
    selection: Name = "concentrated"
    """`concentrated`, `dispersed`, `roundrobin`, `least-fragmentation`, or a plugin's name: which node."""
    packing: Literal["as-queued", "whole-queue"] = "as-queued"
    """`whole-queue`: what waits for room is tried again with all that starts in the plan packed anew (needs
    the `batch` extra)."""
    packing_time_limit: Annotated[Duration, Field(ge=1, le=600)] = 60
    """How long `whole-queue` packing may hold up a plan. It ends by an amount of work that goes with this and
    is done earlier on a usual machine, so that equal clusters get equal plans; a plan that the limit itself
    had to cut short says so."""
    numa: NumaPolicy = "prefer-single-node"
    fractional: Fractional = Fractional()
    gpu_direct_storage: Flag = False
    """Every NUMA node that holds an assigned GPU is activated, with at least one core and its memory, as
    storage that reads into GPUs wants it (Weka)."""
    allowed_types: Annotated[tuple[SessionType, ...], Field(min_length=1)] | None = None
    """Session types that may run here; all when left out."""
    allowed_projects: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Projects that may run here; all when left out."""
    scratch: ScratchLimits = ScratchLimits()
    """`resources.scratch` of its sessions."""
    allow_root: Flag = False
    """Sessions may ask for `container.user: root`: root of their image, with few capabilities. Where the
    engine has no user namespace they are root of the machine's kernel, too."""
    allow_capabilities: tuple[Capability, ...] = ()
    """What root may ask for with `container.capabilities` beside those that a container holds (Docker's own
    default without MKNOD; SYS_PTRACE, SYS_NICE, IPC_LOCK, IPC_OWNER, LEASE, NET_BROADCAST). With most others,
    such as SYS_ADMIN, it is root of the node."""
    preemption: Preemption = Preemption()
    headroom: HeadroomBound = HeadroomBound()
    node_loss: NodeLoss = NodeLoss()
    """For sessions that do not say so themselves; batch sessions are started again only if they have
    `restart` or `checkpoint`."""
    reservations: tuple[Reservation, ...] = ()


class ResourceGroup(Resource):
    """A partition of nodes."""

    singular = "resource group"
    kind: Literal["ResourceGroup"]
    spec: ResourceGroupSpec = ResourceGroupSpec()
