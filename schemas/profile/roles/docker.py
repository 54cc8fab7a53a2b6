"""The section of the role `docker`: the engine that runs containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, Strict

from schemas.profile.roles.field_types import Uri, Version
from schemas.values.envelope import Flag, Model, Positive
from schemas.values.image_reference import RegistryAddress
from schemas.values.names import AbsolutePath, Address, Cidr, LinuxUser, Text
from schemas.values.quantities import Memory


class AddressPool(Model):
    """A range that new networks are cut from."""

    base: Cidr
    """`10.200.0.0/16`."""
    size: Annotated[int, Strict(), Field(ge=8, le=30)] = 24
    """Bits of each network."""


class DockerEngine(Model):
    """The engine that runs containers."""

    version: Version
    """Of the engine and its command, `27.3.1`, or the package's own, `20.10.24+dfsg1-1+deb12u1`."""
    containerd: Version | None = None
    """Of containerd, where another one than the engine's package asks for."""
    package: Literal["docker-ce", "docker.io"] = "docker-ce"
    """Docker's own packages, or the distribution's (Debian and Ubuntu)."""
    data_root: AbsolutePath | None = None
    """Where images and containers lie; /var/lib/docker when left out."""
    cgroup_driver: Literal["systemd", "cgroupfs"] = "cgroupfs"
    """With `systemd`, containers lose their GPUs at a daemon-reload unless CDI gives them."""
    cdi: Flag = True
    """Devices by CDI, on engines that know it (25 and later)."""
    storage_driver: Text | None = None
    """`overlay2`, ...; what the engine takes by itself when left out."""
    live_restore: Flag = True
    """Containers survive a restart of the engine."""
    registry_mirrors: tuple[Uri, ...] = ()
    """Asked before Docker Hub."""
    insecure_registries: tuple[RegistryAddress, ...] = ()
    """Spoken to without TLS, or without checking it."""
    registry_certificates: Mapping[RegistryAddress, Text] = {}
    """Registry → certificates (PEM) that its own is checked against."""
    dns: tuple[Address, ...] = ()
    """Name servers of containers; the node's own when left out."""
    mtu: Positive | None = None
    """Of the default network."""
    log_size: Memory | None = None
    """Most bytes of one file of a container's log, and how many there are."""
    log_files: Positive | None = None
    """Left out, one."""
    memlock_unlimited: Flag = False
    """Containers may lock any amount of memory (RDMA, pinned memory)."""
    address_pools: tuple[AddressPool, ...] = ()
    """Ranges that new networks are cut from."""
    proxy: Uri | None = None
    """HTTP proxy through which images are pulled."""
    no_proxy: tuple[Text, ...] = ()
    """Hosts and networks that are reached without it."""
    users: tuple[LinuxUser, ...] = ()
    """Members of the group docker: as good as root."""
    daemon: Mapping[Text, Text] = {}
    """Further settings of daemon.json that are plain texts."""
