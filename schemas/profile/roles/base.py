"""The section of the role `base`: the operating system below everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, Strict

from schemas.profile.roles.field_types import Module, Package, Sysctl, Version
from schemas.values.envelope import Count, Flag, Model
from schemas.values.names import AbsolutePath, Address, LinuxUser, Mode, Text
from schemas.values.quantities import Memory

Number = Annotated[int, Strict(), Field(ge=0, le=2**32 - 2)]


class Kernel(Model):
    """The kernel and its headers, always as a pair."""

    version: Version
    """Of the kernel as `uname -r` says: `6.8.0-45-generic`."""
    headers: Version | None = None
    """Of the headers that modules are built with; the kernel's own version when left out."""
    package_version: Version | None = None
    """Of the packages themselves, where a mirror holds several builds of one kernel."""


class Account(Model):
    """A Linux user of the node."""

    name: LinuxUser
    """As in passwd."""
    uid: Number | None = None
    """The next free one when left out."""
    groups: tuple[LinuxUser, ...] = ()
    """Beyond the user's own; made where they are missing."""
    keys: tuple[Text, ...] = ()
    """Public keys that may log in, whole lines of authorized_keys; others are removed."""
    sudo: Flag = False
    """Whether every command may be run as root without a password."""
    shell: Text = "/bin/bash"
    """The program of a login."""
    state: Literal["present", "absent"] = "present"
    """`absent` takes the account away; its home stays."""


class Limit(Model):
    """One line of limits.d."""

    domain: Text = "*"
    """A user, `@group`, or `*`; `*` does not count for root, who is given a line of his own."""
    type: Literal["soft", "hard", "-"] = "-"
    """`-` is both."""
    item: Text
    """`memlock`, `nofile`, `stack`, ..."""
    value: Text
    """A number or `unlimited`."""


class HugePages(Model):
    """Pages set aside at boot."""

    size: Memory
    """`2MiB` or `1GiB`."""
    count: Count
    """On the whole machine, or on the NUMA node that is named."""
    numa_node: Count | None = None
    """The NUMA node they lie on; spread by the kernel when left out."""


class Tmpfs(Model):
    """A file system in memory."""

    path: AbsolutePath
    """Where it is mounted."""
    size: Memory
    """Most data it holds."""
    mode: Mode = "1777"
    """Permissions of its root."""


class Base(Model):
    """The operating system below everything else."""

    packages: Mapping[Package, Version | None] = {}
    """Name → exact version; null for any."""
    kernel: Kernel | None = None
    """Exact kernel with its headers; the node boots it. Left out: whatever the node runs."""
    hold: tuple[Package, ...] = ()
    """Packages that no upgrade may move, beside those with an exact version."""
    unattended_upgrades: Literal["off", "security", "keep"] = "off"
    """`off`: the node upgrades nothing by itself. `security`: it does, but never the driver, the kernel, the
    engine or what is held, and never restarts. `keep`: as it is."""
    time_servers: tuple[Address, ...] = ()
    """Chrony asks these; left out, time synchronisation stays as it is."""
    timezone: Text | None = None
    """`Etc/UTC`, `Europe/Berlin`; left out, as it is."""
    users: tuple[Account, ...] = ()
    """Accounts of administrators; users of bai need none."""
    limits: tuple[Limit, ...] = ()
    """Of logins and of services alike; `memlock: unlimited` is what RDMA and pinned memory need."""
    sysctls: Mapping[Sysctl, Text] = {}
    """Kernel settings, now and after a reboot."""
    modules: tuple[Module, ...] = ()
    """Kernel modules loaded now and at boot."""
    huge_pages: tuple[HugePages, ...] = ()
    """Set aside early at boot, and now as far as memory allows."""
    transparent_huge_pages: Literal["always", "madvise", "never"] | None = None
    """Left out, as it is."""
    numa_balancing: Flag | None = None
    """Whether the kernel moves pages after threads; `false` for pinned sessions. Left out, as it is."""
    cpu_governor: Literal["performance", "schedutil", "powersave", "ondemand"] | None = None
    """Of every core; said aloud and skipped where the machine has none (most virtual machines)."""
    disable_nouveau: Flag = False
    """Keeps the kernel's own NVIDIA driver from being loaded; a node that has it loaded needs a reboot."""
    iommu: Literal["off", "pt", "on"] | None = None
    """On the kernel's command line, for Intel and AMD: GDS wants `off` or `pt`. Left out, as it is."""
    kernel_parameters: tuple[Text, ...] = ()
    """Further words of the kernel's command line, `pci=realloc`; the node needs a reboot for new ones."""
    tmpfs: tuple[Tmpfs, ...] = ()
    """File systems in memory."""
