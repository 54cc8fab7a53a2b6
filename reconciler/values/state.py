"""What is wanted and what is: the two inputs of a plan, as values.

`Desired` comes from one commit or directory (`reconciler.sources.source`), `Actual` from the store and the
provider (`reconciler.observe`). Both are complete in themselves: the diff reads nothing else, so that a case
can be written down as two files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.values.session_phase import ENDED

if TYPE_CHECKING:
    from planner.model.types import KernelPlacement
    from providers.autoscaling.values import NodeAsks
    from providers.base import Capabilities, Claim, Observed
    from providers.foreign_use import OfferedDevices, OutsideQuota
    from providers.health.values import NodeHealth
    from providers.images import NodeImage
    from providers.storage.base import FolderState
    from reconciler.values.provision_status import ProvisionStatus
    from reconciler.values.records import Balance, Contact, ProvisionRecord, Recorded, Sample
    from reconciler.values.services.pattern import ServicePattern
    from reconciler.values.services.readiness import Readiness
    from reconciler.values.services.scaling import ScaleDecision
    from reconciler.values.services.state import RolloutOrder
    from schemas.hardware.model import Hardware
    from schemas.images.facts import ImageFacts
    from schemas.kinds.node import Node
    from schemas.kinds.quota import Quota
    from schemas.kinds.resource_group import ResourceGroup
    from schemas.kinds.session import Session
    from schemas.repository.repository import Repository
    from schemas.values.envelope import Resource


@dataclass(frozen=True)
class Desired:
    """Everything the documents of one cluster say."""

    repo: str
    cluster: str
    commit: str
    """Empty for a working directory's files, whose `tree` digest stands alone."""
    tree: str
    """Digest of all documents of the repository."""
    repository: Repository
    resources: Mapping[str, Resource]
    """Identity → resource of this cluster or of the whole repository; sessions with their cluster's defaults
    filled in."""
    documents: Mapping[str, Mapping[str, object]]
    """Canonical, no secrets."""
    digests: Mapping[str, str]
    services: Mapping[str, ServicePattern] = field(default_factory=dict)
    """Identity → what the replicas of a service of this cluster are."""

    def sessions(self) -> Mapping[str, Session]:
        """The sessions by identity."""
        return self._sessions

    @cached_property
    def _sessions(self) -> Mapping[str, Session]:
        from schemas.kinds.session import Session

        return {identity: item for identity, item in self.resources.items() if isinstance(item, Session)}

    @cached_property
    def session_specs(self) -> tuple[Session, ...]:
        """What asks for something: the sessions, and what the replicas of services are."""
        return (*self.sessions().values(), *(each.session for each in self.services.values()))

    @cached_property
    def groups(self) -> Mapping[str, ResourceGroup]:
        """The resource groups by name."""
        from schemas.kinds.resource_group import ResourceGroup

        return {item.name: item for item in self.resources.values() if isinstance(item, ResourceGroup)}

    @cached_property
    def idle_quotas(self) -> tuple[Quota, ...]:
        """Those that stop idle sessions."""
        from schemas.kinds.quota import Quota

        quotas = (item for item in self.resources.values() if isinstance(item, Quota))
        return tuple(quota for quota in quotas if quota.spec.idle_timeout is not None)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every machine of the cluster, pools expanded, by name."""
        return self.repository.nodes_of(self.cluster)


@dataclass(frozen=True)
class Existing:
    """One resource as it is: its record and the kernels found for it; a record that was lost is made anew
    from the kernels' labels.

    `phase`, `result`, `exit_codes` and `reason` are derived from what runs, not from what was recorded.
    `kernels` are those of the recorded generation, `strays` those of other generations, which an apply
    removes. `missing` names kernels that are recorded but not found, `away` those on nodes that could not be
    asked, with the nodes.
    """

    id: str
    recorded: Recorded
    phase: str
    kernels: tuple[Observed, ...] = ()
    strays: tuple[Observed, ...] = ()
    missing: tuple[str, ...] = ()
    away: Mapping[str, str] = field(default_factory=dict)
    result: str = ""
    exit_codes: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    adopted: bool = False
    """True when the store had no record, and the labels gave it."""

    @cached_property
    def protected(self) -> bool:
        """Whether the record or any live kernel says so."""
        return self.recorded.protected or any(k.labels.protected for k in self.kernels + self.strays)

    @property
    def finished_at(self) -> float | None:
        """When it ended, in seconds since the epoch: as recorded, else as its containers tell."""
        if self.phase not in ENDED:
            return None
        ends = [kernel.finished.timestamp() for kernel in self.kernels if kernel.finished]
        return self.recorded.finished_at or max(ends, default=None)


@dataclass(frozen=True, slots=True)
class ForeignHold:
    """What a kernel of another owner holds on a machine that this cluster uses too. A grant without a slot is
    of whatever the device is there."""

    kernel: str
    owner: str
    placement: KernelPlacement
    passing: bool = False
    """It comes and goes all the time, and whoever makes a kernel looks again: a plan stays good for it."""


@dataclass(frozen=True, slots=True)
class UnreachableNode:
    """A node that could not be asked. `since` is None when it was reached the last time; `stranger`: a store
    that is new or was restored has never seen it, and does not know what may run there. A node that joined
    after all others were once reached is none: nothing was ever placed on it."""

    why: str
    since: float | None = None
    stranger: bool = False


@dataclass(frozen=True, slots=True)
class Actual:
    """What is recorded and what runs in one cluster. Only an observation that is `complete` lets absence
    mean anything."""

    repo: str
    cluster: str
    existing: Mapping[str, Existing] = field(default_factory=dict)
    holds: tuple[ForeignHold, ...] = ()
    hardware: Mapping[str, Hardware] = field(default_factory=dict)
    """Node name → what the machine is: probed now, else last observed."""
    unprobed: Mapping[str, str] = field(default_factory=dict)
    """Node → why it could not be probed when that was tried; what it was last seen as still counts."""
    capabilities: Capabilities | None = None
    """None when no provider was asked (`offline`)."""
    complete: bool = True
    errors: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """What makes one doubt the clocks."""
    volumes: Mapping[str, FolderState] | None = None
    """Volume → its folder as it is; None when nobody looks after folders here, or nobody looked."""
    images: Mapping[str, ImageFacts] = field(default_factory=dict)
    """Full reference → what is remembered of an image."""
    asked: frozenset[str] = frozenset()
    """Full references whose registries were asked for this very plan."""
    unanswered: Mapping[str, str] = field(default_factory=dict)
    """Full reference → why its registry's answer is not what was asked for: unreachable, not signed."""
    held: Mapping[str, tuple[NodeImage, ...]] | None = None
    """Node → the images it has, of the nodes that are to have some early; None when nobody looked."""
    unlabelled: tuple[str, ...] = ()
    """Ids found that carry no readable labels: reported, never touched."""
    claimed: tuple[Claim, ...] = ()
    """Kernels that nodes show which do not have them: reported, never touched."""
    cordoned: Mapping[str, str] = field(default_factory=dict)
    """Node → why what runs kernels there wants no new ones."""
    outside_quotas: tuple[OutsideQuota, ...] = ()
    """What others than bai hold projects' kernels to."""
    offered: OfferedDevices | None = None
    """What nodes offer of their devices; None where nobody looked, or nobody can withdraw them."""
    node_asks: NodeAsks | None = None
    """What an autoscaler is asked for; None where nobody looked, or none is asked."""
    readiness: Mapping[str, Readiness] = field(default_factory=dict)
    """Replica (identity of a session) → how it answers; without those that were not asked yet."""
    scales: Mapping[str, ScaleDecision] = field(default_factory=dict)
    """Service → what the autoscaler holds now; without those that it knows nothing of."""
    rollout_orders: Mapping[str, RolloutOrder] = field(default_factory=dict)
    """Service → what somebody wants in place of its document, by the store."""
    missed: Mapping[str, UnreachableNode] = field(default_factory=dict)
    """Node → why it could not be asked, and since when."""
    contacts: Mapping[str, Contact] = field(default_factory=dict)
    """Node → how it was last found, by the store."""
    samples: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    """Kernel → what it had used at some moments, oldest first."""
    balances: Mapping[str, Balance] = field(default_factory=dict)
    """User → what the user's ended sessions used."""
    health: Mapping[str, NodeHealth] = field(default_factory=dict)
    """Node → its health, of those that were asked."""
    provision_records: Mapping[str, ProvisionRecord] = field(default_factory=dict)
    """Node → how far its provisioning has come, by the store."""
    provision_status: ProvisionStatus | None = None
    """Nodes with a profile, what they are to be and how they stand; None where no node has one."""
