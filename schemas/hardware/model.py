"""What a machine is, as far as placement is concerned: NUMA nodes, cores, memory, PCI devices and how they
are linked.

The same model is written by the probe (JSON), by people (`Node.spec.hardware`), and by importers of foreign
captures. What a
source could not tell is left out and named in `unknown`; nothing is guessed silently.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    WithJsonSchema,
    model_serializer,
)
from pydantic.alias_generators import to_camel

from schemas.hardware.cpuset import CpuList
from schemas.values.once_per_value import without_derived
from schemas.values.quantities import Bytes

Natural = Annotated[int, Strict(), Field(ge=0)]
Positive = Annotated[int, Strict(), Field(ge=1)]
Flag = Annotated[bool, Strict()]
NodeKey = Annotated[int, Field(ge=0), WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,6}$"})]
IpAddress = Annotated[str, Field(pattern=r"^[0-9a-fA-F:.]{2,45}$")]
PageSize = Literal["2Mi", "1Gi"]
LinkKind = Literal["NV", "XGMI", "PIX", "PXB", "PHB", "NODE", "SYS"]
"""`NV`/`XGMI` direct links; then the PCI classes of `nvidia-smi topo -m`, nearest first."""
UNKNOWN_CORES = "which CPUs are of which NUMA node, and which are threads of one core"
"""In `Hardware.unknown` where CPUs are known by their number alone."""


class _HardwareModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)

    def __copy__(self) -> Self:
        return without_derived(super().__copy__(), type(self).__pydantic_fields__)


class NumaNode(_HardwareModel):
    """One NUMA node; a memory-only node (CXL, HBM, a GPU's own memory) has no CPUs."""

    id: Natural
    cpus: CpuList = ()
    """Online logical CPUs, written as a list string (`0-15,32-47`)."""
    memory: Bytes = 0
    """Bytes, huge pages included."""
    hugepages: dict[PageSize, Bytes] = {}
    """Bytes of it that are set aside as huge pages, by their size."""
    kind: Literal["dram", "hbm", "cxl", "gpu"] = "dram"
    distances: dict[NodeKey, Natural] = {}
    """NUMA distance to other nodes by id, 10 = local."""

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Digests of machines that have none are what they were before there was this field.
        written: dict[str, Any] = handler(self)
        return written if self.hugepages else {n: v for n, v in written.items() if n != "hugepages"}


class Gpu(_HardwareModel):
    """One GPU (or other accelerator). `slot` is the slot prefix it provides: `cuda`, `rocm`, ..."""

    id: str
    """Stable id: the UUID where known, else the PCI address, else `gpu<index>`."""
    index: Natural
    slot: str = "cuda"
    vendor: str = ""
    model: str = ""
    pci: str | None = None
    """`dddd:bb:dd.f`, lower case."""
    numa_node: Natural | None = None
    memory: Bytes = 0
    """Bytes."""
    mig: Literal["disabled", "enabled"] | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    healthy: Flag = True
    health: tuple[str, ...] = ()
    """What is wrong, in words; empty when nothing is known to be."""
    pcie_path: tuple[str, ...] = ()
    """PCI bridges from the root port down to the device, addresses."""


class MigDevice(_HardwareModel):
    """One MIG instance that exists: its profile (`1g.10gb`) and placement over memory slices."""

    id: str
    profile: str
    start: Natural | None = None
    size: Positive | None = None


class Nic(_HardwareModel):
    """One network interface that can carry RDMA."""

    id: str
    """RDMA device name (`mlx5_0`) where known, else the interface or PCI address."""
    pci: str | None = None
    numa_node: Natural | None = None
    interface: str | None = None
    link_layer: Literal["infiniband", "ethernet"] | None = None
    speed_mbps: Natural | None = None
    rdma: Flag = True
    addresses: tuple[IpAddress, ...] = ()
    """IP addresses by which storage finds it; declared by people, the probe leaves them out."""
    rail: Natural | None = None
    pcie_path: tuple[str, ...] = ()


class Disk(_HardwareModel):
    """One NVMe drive."""

    id: str
    pci: str | None = None
    numa_node: Natural | None = None
    size: Bytes = 0
    pcie_path: tuple[str, ...] = ()


class Link(_HardwareModel):
    """How two devices (ids of GPUs or NICs) are connected; `count` is the number of direct links for `NV` and
    `XGMI`."""

    a: str
    b: str
    kind: LinkKind
    count: Positive = 1


class Software(_HardwareModel):
    """Versions found on the machine; None where absent or unknown."""

    kernel: str | None = None
    os: str | None = None
    nvidia_driver: str | None = None
    cuda: str | None = None
    mlnx_ofed: str | None = None


class Hardware(_HardwareModel):
    """One machine."""

    architecture: str = "x86_64"
    hostname: str | None = None
    numa_nodes: Annotated[tuple[NumaNode, ...], Field(min_length=1)]
    siblings: tuple[CpuList, ...] = ()
    """Logical CPUs of each physical core that has more than one thread (`0,32`); cores not named have one
    thread."""
    offline_cpus: CpuList = ()
    isolated_cpus: CpuList = ()
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    disks: tuple[Disk, ...] = ()
    links: tuple[Link, ...] = ()
    nv_switches: Natural = 0
    software: Software = Software()
    unknown: tuple[str, ...] = ()
    """What the source could not tell, in words: `NUMA distances`, `PCI addresses of GPUs`, ..."""

    @property
    def knows_cores(self) -> bool:
        """Whether the place of each CPU is known."""
        return UNKNOWN_CORES not in self.unknown


Gpu.model_rebuild()
