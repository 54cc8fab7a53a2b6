"""What others than bai use of the nodes, where somebody else gives their room away, too; what they allow
kernels together; and what they offer at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.hardware.anonymous import is_anonymous

PODS = "pods"
CLAIMS = "resourceclaims"
"""Beside the slots of the planner: kernels, and the claims by which they have their devices."""


@dataclass(frozen=True)
class ForeignUse:
    """What others than bai use of a node, together."""

    node: str
    owner: str
    """Who, in words."""
    cpu_milli: int = 0
    memory: int = 0
    """Bytes."""
    devices: tuple[str, ...] = ()
    """Ids, as the node's hardware has them."""
    hugepages: Mapping[str, int] = field(default_factory=dict)
    """Slot (`hugepages-2Mi`) → bytes."""


@dataclass(frozen=True)
class OutsideQuota:
    """One limit, as it stands now. Amounts are in the smallest unit of each slot (`cpu` in thousandths of a
    core, `mem` in bytes), and whole pods and claims."""

    name: str
    """Who limits: `ResourceQuota/team-vision/compute`."""
    project: str
    """Whose kernels count; empty: those of all projects."""
    hard: Mapping[str, int]
    others: Mapping[str, int]
    """What others than bai use of it, of each name in `hard`."""
    most: Mapping[str, int] = field(default_factory=dict)
    """Of each slot, for one kernel."""
    least: Mapping[str, int] = field(default_factory=dict)
    """That one kernel has to ask for."""


@dataclass(frozen=True)
class OfferedDevices:
    """What of their devices nodes offer now, where drivers say so and may withdraw them for a while."""

    devices: Mapping[str, frozenset[str]]
    """Node → ids of devices, as its hardware has them; one that is not here offers none."""
    cores: frozenset[str]
    """Nodes whose cores can be given one by one."""
    why: str
    """Why something of a node's may be missing, and what ends that, in words."""
    counted_why: str = ""
    """The same of devices that are known by their number alone."""

    def why_not(self, device: str) -> str:
        return self.counted_why if is_anonymous(device) else self.why
