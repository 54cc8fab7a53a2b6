"""The section of the role `gds`: storage straight into GPU memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from schemas.profile.roles.field_types import Package, Version
from schemas.values.envelope import Flag, Model
from schemas.values.names import Text


class Gds(Model):
    """Storage straight into GPU memory: nvidia-fs and cufile.json."""

    version: Version
    """Of GDS' tools and library, `1.11.1.6`."""
    cuda: Version | None = None
    """Of the CUDA release whose packages bring it, `12.6`. Left out: the one that this version belongs to."""
    nvidia_fs: Version | None = None
    """Of the kernel module nvidia-fs, `2.22.3`; null where the kernel's own peer-to-peer path serves."""
    packages: tuple[Package, ...] = ()
    """Instead of the packages of tools and library that the role knows; all of GDS' version."""
    allow_compat_mode: Flag = False
    """Reads and writes that cannot go straight take the slow way, instead of failing."""
    supported: tuple[Literal["nvme", "nvmeof", "lustre", "weka", "nfs", "gpfs", "beegfs", "rdma"], ...] = ()
    """Paths of storage that `gdscheck -p` must report as supported. Left out, at least one must be."""
    iommu: Literal["off", "pt", "on"] = "off"
    """What the IOMMU is expected to be; checked on the node, never changed here."""
    acs: Literal["off", "any"] = "off"
    """`off`: no PCI bridge above a GPU or an RDMA card may redirect requests between devices; checked, never
    changed."""
    cufile: Mapping[Text, Text] = {}
    """Further settings of cufile.json, by path: `properties.max_direct_io_size_kb`. Numbers, true
    and false are written as such."""
