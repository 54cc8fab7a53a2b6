"""The facts that `node/main.py` reports, as a model. Every one may be missing: a rule says nothing then."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class KernelInstalled(_Part):
    release: str
    nvidia: bool = False
    """Has a module for NVIDIA's GPUs."""


class DriverSoftware(_Part):
    loaded: str = ""
    """Version of the driver in the kernel."""
    on_disk: str = ""
    """Version that the kernel would load now."""
    library: str = ""
    """Version of user space."""
    library_since: float = 0.0
    packages: dict[str, str] = {}
    kernels: tuple[KernelInstalled, ...] = ()
    running: str = ""
    reboot_required: bool = False


class PciDevice(_Part):
    pci: str
    what: Literal["gpu", "switch"]
    driver: str = ""
    gone: bool = False
    """Its configuration space reads as ones."""


class GpuState(_Part):
    """One GPU. Counts are since the driver was loaded, `_ever` those of its life."""

    index: int = -1
    uuid: str = ""
    pci: str = ""
    model: str = ""
    problem: str = ""
    persistence: bool | None = None
    recovery: str = ""
    fabric: str = ""
    ecc: bool | None = None
    ecc_pending: bool | None = None
    uncorrected: int | None = None
    uncorrected_ever: int | None = None
    corrected: int | None = None
    corrected_ever: int | None = None
    sram_threshold: bool = False
    rows_uncorrected: int | None = None
    rows_pending: bool | None = None
    rows_failed: bool | None = None
    retired: int | None = None
    retirement_pending: bool | None = None
    width: int | None = None
    width_most: int | None = None
    speed: int | None = None
    speed_most: int | None = None
    replays: int | None = None
    links: int | None = None
    """NVLinks that are up; None where there are none."""
    temperature: int | None = None
    temperature_slows: int | None = None
    slowed: tuple[str, ...] | None = None
    performance: int | None = None
    """0 is full speed."""
    clock: int | None = None
    clock_most: int | None = None
    watts: float | None = None
    mig: bool | None = None
    mig_pending: bool | None = None
    instances: int | None = None


class GpuFacts(_Part):
    """`problem` is the driver's, not a GPU's."""

    source: str = ""
    driver: str = ""
    problem: str = ""
    hangs: bool = False
    devices: tuple[GpuState, ...] = ()


class XidCount(_Part):
    pci: str
    xid: int
    count: int
    ago: float
    """Seconds since the last one."""
    words: str = ""


class KernelLog(_Part):
    problem: str = ""
    xids: tuple[XidCount, ...] = ()
    machine_checks: int = 0
    read_only: tuple[str, ...] = ()


class CdiSpecification(_Part):
    path: str
    written: float = 0.0
    devices: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class DiskSpace(_Part):
    path: str
    size: int
    free: int
    files: int = 0
    files_free: int = 0


class NetworkMounts(_Part):
    there: tuple[str, ...] = ()
    stale: dict[str, str] = {}
    missing: tuple[str, ...] = ()


class MemoryController(_Part):
    controller: str
    corrected: int = 0
    uncorrected: int = 0


class RdmaPort(_Part):
    device: str
    port: str
    state: str = ""
    physical: str = ""
    layer: str = ""
    rate: int | None = None
    """Mbit/s."""
    downs: int | None = None


class MachineFacts(_Part):
    """One machine at one moment."""

    software: DriverSoftware = DriverSoftware()
    pci: tuple[PciDevice, ...] = ()
    gpus: GpuFacts = GpuFacts()
    log: KernelLog = KernelLog()
    units: dict[str, str] = {}
    cdi: tuple[CdiSpecification, ...] = ()
    unlinked: tuple[str, ...] = ()
    """Links of NVIDIA's devices in /dev/char that are missing."""
    disks: tuple[DiskSpace, ...] = ()
    mounts: NetworkMounts = NetworkMounts()
    synchronised: bool | None = None
    memory: tuple[MemoryController, ...] = ()
    rdma: tuple[RdmaPort, ...] = ()
    now: float = 0.0
