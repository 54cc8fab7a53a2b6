"""GPUDirect: storage and network cards that reach GPU memory, and the IOMMU between them.

Sources: GDS release notes (from 1.7.2 on only with the open kernel modules) and GPU operator guide (nvidia-fs
2.17.5 and newer likewise); "GDS Support for NVMe Drives Using Linux PCI P2PDMA" and GDS' troubleshooting
guide (without nvidia-fs: NVMe only, open driver 565, Linux 6.2); GPU operator guide on DMA-BUF (open driver
515, Linux 5.12) and nvidia-peermem (driver 470, and the peer memory interface of OFED, which Ubuntu's own
kernels carry too); GDS best practices (IOMMU off or passthrough on x86, on for Grace).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schemas.problems.issues import Issue, Loc
from schemas.profile import NodeProfileSpec
from schemas.profile.roles.gds import Gds
from schemas.profile.roles.rdma import Rdma
from schemas.profile.versions.driver import flavour_of
from schemas.profile.versions.version_numbers import driver_branch, is_older

GDS: Loc = ("spec", "gds")
RDMA: Loc = ("spec", "rdma")


def rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    """Everything about GDS, RDMA and the IOMMU that cannot work."""
    if spec.gds is not None:
        yield from _gds_flavour_rules(spec, spec.gds)
        yield from _peer_to_peer_rules(spec, spec.gds)
        yield from _nfs_rdma_rules(spec)
        yield from _iommu_rules(spec, spec.gds)
    if spec.rdma is not None:
        yield from _stack_rules(spec.rdma)
        yield from _dma_buf_rules(spec, spec.rdma)
        yield from _peermem_rules(spec, spec.rdma)


def _gds_flavour_rules(spec: NodeProfileSpec, gds: Gds) -> Iterator[Issue]:
    driver = spec.nvidia_driver
    if driver is None or flavour_of(driver) == "open":
        return
    hint = "write nvidiaDriver.flavour: open"
    if gds.nvidia_fs and not is_older(gds.nvidia_fs, "2.17.5"):
        message = f"nvidia-fs {gds.nvidia_fs} loads with the open kernel modules only, as all from 2.17.5 on"
        yield Issue((*GDS, "nvidiaFs"), message, hint, "BAI-V067")
    elif not is_older(gds.version, "1.7.2"):
        message = f"GDS {gds.version} works with the open kernel modules only, as all from 1.7.2 on"
        yield Issue((*GDS, "version"), message, hint, "BAI-V067")


def _peer_to_peer_rules(spec: NodeProfileSpec, gds: Gds) -> Iterator[Issue]:
    """GDS without nvidia-fs goes through the kernel's own peer-to-peer path, for NVMe drives."""
    if gds.nvidia_fs is not None:
        return
    hint = "give nvidiaFs: <version>"
    for index, path in enumerate(gds.supported):
        if path not in ("nvme", "rdma"):
            message = f"GDS reaches {path} through nvidia-fs only, and the profile has none"
            yield Issue((*GDS, "supported", index), message, hint, "BAI-V067")
    driver = spec.nvidia_driver
    if driver is not None and driver_branch(driver.version) < 565:
        message = f"without nvidia-fs, GDS needs driver 565 or newer, this is {driver.version}"
        yield Issue((*GDS, "nvidiaFs"), message, hint, "BAI-V067", key=True)
    kernel = _kernel_version(spec)
    if kernel and spec.os != "rhel-9" and is_older(kernel, "6.2"):
        message = f"without nvidia-fs, GDS needs Linux 6.2 or newer, this is {kernel}"
        yield Issue((*GDS, "nvidiaFs"), message, hint, "BAI-V067", key=True)


def _nfs_rdma_rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    """NFS over RDMA reaches GPU memory with the modules of OFED only."""
    client, rdma = spec.storage_client, spec.rdma
    if client is None or (rdma is not None and rdma.stack != "inbox"):
        return
    for index, mount in enumerate(client.mounts):
        if mount.type in ("nfs", "nfs4") and {"rdma", "proto=rdma"} & set(mount.options):
            at: Loc = ("spec", "storageClient", "mounts", index, "options")
            message = "GDS over NFS with RDMA needs the modules of DOCA-OFED or MLNX_OFED"
            yield Issue(at, message, "write rdma.stack: doca-ofed", "BAI-V067")


def _iommu_rules(spec: NodeProfileSpec, gds: Gds) -> Iterator[Issue]:
    base = spec.base
    if base is None:
        return
    if base.iommu is not None and base.iommu != gds.iommu:
        message = f"base sets the IOMMU to {base.iommu}, and GDS expects {gds.iommu}"
        yield Issue((*GDS, "iommu"), message, f"write {base.iommu} here, or change base.iommu", "BAI-V071")
    told = _iommu_setting(base.kernel_parameters)
    if told is None:
        return
    value, index = told
    contrary = base.iommu is not None and (value == "off") != (base.iommu == "off")
    if contrary or (base.iommu is None and value != gds.iommu):
        expected = f"base.iommu is {base.iommu}" if contrary else f"GDS expects the IOMMU to be {gds.iommu}"
        message = f"{base.kernel_parameters[index]} on the kernel's command line, and {expected}"
        at: Loc = ("spec", "base", "kernelParameters", index)
        yield Issue(at, message, f"change it, or write {value} there", "BAI-V071")


def _iommu_setting(words: Sequence[str]) -> tuple[str, int] | None:
    """What words of the kernel's command line make of the IOMMU, and which of them says so. Passthrough is
    the IOMMU switched on with `iommu=pt` beside it."""
    found = {
        value: index
        for index, word in enumerate(words)
        for name, _, value in [word.partition("=")]
        if name in ("iommu", "intel_iommu", "amd_iommu")
    }
    return next(((value, found[value]) for value in ("off", "pt", "on") if value in found), None)


def _stack_rules(rdma: Rdma) -> Iterator[Issue]:
    if rdma.stack != "inbox" and rdma.version is None:
        message = f"{rdma.stack} without a version"
        yield Issue((*RDMA, "stack"), message, "give version: <exact version>", "BAI-V068")
    if rdma.stack == "inbox" and rdma.version is not None:
        message = "the distribution's own modules come with its kernel, in no version of their own"
        yield Issue((*RDMA, "version"), message, "leave it out, or name a stack", "BAI-V068")


def _dma_buf_rules(spec: NodeProfileSpec, rdma: Rdma) -> Iterator[Issue]:
    if rdma.peer_memory != "dma-buf":
        return
    at: Loc = (*RDMA, "peerMemory")
    if spec.nvidia_driver is not None and flavour_of(spec.nvidia_driver) != "open":
        message = "DMA-BUF needs the open kernel modules of the driver"
        hint = "write nvidiaDriver.flavour: open, or peerMemory: nvidia-peermem"
        yield Issue(at, message, hint, "BAI-V068")
    kernel = _kernel_version(spec)
    if kernel and spec.os != "rhel-9" and is_older(kernel, "5.12"):
        message = f"DMA-BUF between GPUs and network cards needs Linux 5.12, this is {kernel}"
        yield Issue(at, message, "choose a newer kernel, or write nvidia-peermem", "BAI-V068")


def _peermem_rules(spec: NodeProfileSpec, rdma: Rdma) -> Iterator[Issue]:
    if rdma.peer_memory != "nvidia-peermem":
        return
    at: Loc = (*RDMA, "peerMemory")
    driver = spec.nvidia_driver
    if driver is not None and driver_branch(driver.version) < 470:
        message = f"nvidia-peermem came with driver 470, this is {driver.version}"
        yield Issue(at, message, "choose a newer driver", "BAI-V068")
    if rdma.stack == "inbox" and not spec.os.startswith("ubuntu"):
        message = f"the kernel of {spec.os} has no peer memory interface that nvidia-peermem could use"
        yield Issue(at, message, "write dma-buf, or stack: doca-ofed", "BAI-V068")


def _kernel_version(spec: NodeProfileSpec) -> str:
    """The exact kernel, where the profile names one."""
    return spec.base.kernel.version if spec.base and spec.base.kernel else ""
