"""The section of the role `rdma`: network cards that read and write memory by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from schemas.profile.roles.field_types import Module, Package, Version
from schemas.values.envelope import Model
from schemas.values.names import Text
from schemas.values.quantities import Memory


class Rdma(Model):
    """Network cards that read and write memory by themselves."""

    stack: Literal["inbox", "doca-ofed", "mlnx-ofed"] = "inbox"
    """The distribution's modules, NVIDIA's DOCA-OFED, or its older MLNX_OFED."""
    version: Version | None = None
    """Of the stack; needed for any but `inbox`."""
    packages: tuple[Package, ...] = ()
    """Further packages, in any version."""
    peer_memory: Literal["dma-buf", "nvidia-peermem", "none"] = "dma-buf"
    """How cards reach GPU memory: DMA-BUF with the open driver, nvidia-peermem with either."""
    modules: tuple[Module, ...] = ()
    """Further modules loaded at boot."""
    memlock: Literal["unlimited"] | Memory = "unlimited"
    """How much memory a process may lock: every buffer that a card reads or writes is locked."""
    devices: tuple[Text, ...] = ()
    """RDMA devices that must be there with an active port, `mlx5_0`."""
    nccl: Mapping[Text, Text] = {}
    """Lines of /etc/nccl.conf."""
