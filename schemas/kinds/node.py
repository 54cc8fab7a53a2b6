"""Node and NodePool: machines, one by one or many equal ones in one document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from schemas.hardware.cpuset import CpuList
from schemas.hardware.model import Hardware
from schemas.kinds.cluster import Ssh
from schemas.kinds.parts.docker import Docker
from schemas.values.envelope import Flag, Metadata, Model, NodeMetadata, Resource
from schemas.values.names import Address, LabelKey, LabelValue, Name, RangePattern, RelativePath
from schemas.values.quantities import Memory


class Reserved(Model):
    """What sessions never get."""

    cpus: CpuList = ()
    """Logical CPUs kept for the system, `0-1`."""
    memory: Memory = 0


class Drain(Model):
    """How a node is emptied."""

    force: Flag = False
    """Sessions that may not be moved are stopped and queued again, too."""


class MachineSpec(Model):
    """What `Node` and `NodePool` share."""

    cluster: Name | None = None
    """May be left out when the repository has exactly one Cluster."""
    ssh: Ssh = Ssh()
    docker: Docker = Docker()
    """Of a cluster whose provider is docker: where this node differs."""
    resource_group: Name | None = None
    """Left out: the group of its cluster whose `nodeSelector` matches, or the only group."""
    profile: Name | None = None
    """The NodeProfile that provisioning brings it to; its cluster's default when left out, and without any it
    is left as it is."""
    labels: Mapping[LabelKey, LabelValue] = {}
    """What sessions and groups select by."""
    state: Literal["active", "cordoned", "drained"] = "active"
    """`cordoned` takes nothing new; from a `drained` one also moves away what may be moved (`movable`,
    `preemptible`); what may not keeps it from being empty, and the plan names it."""
    drain: Drain = Drain()
    reserved: Reserved = Reserved()
    hardware: Hardware | None = None
    """What the machine is, declared, for nodes that cannot be probed."""
    hardware_from: RelativePath | None = None
    """A file with it: a saved `bai nodes probe`, relative to this document's file or to the root."""


class NodeSpec(MachineSpec):
    address: Address | None = None
    """Host name or IP address; the node's name when left out."""
    data_address: Address | None = None
    """On the cluster's data network, where sessions' containers reach each other; `address` when left
    out."""


class Node(Resource):
    """One machine."""

    singular = "node"
    kind: Literal["Node"]
    metadata: NodeMetadata
    spec: NodeSpec


class NodePoolSpec(MachineSpec):
    name_pattern: RangePattern
    """`gpu-[001-128]`: one node per number, leading zeros kept. Several ranges multiply."""
    address_pattern: RangePattern | None = None
    """`10.0.0.[1-128]`: as many addresses as names, in the same order; the names themselves when left out."""
    data_address_pattern: RangePattern | None = None
    """The same for `dataAddress`."""
    exclude: Annotated[tuple[str, ...], Field(max_length=10_000)] = ()
    """Names of the pattern that do not exist or have a Node document of their own."""


class NodePool(Resource):
    """Many equal machines."""

    singular = "node pool"
    kind: Literal["NodePool"]
    metadata: Metadata
    spec: NodePoolSpec
