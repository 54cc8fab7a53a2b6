"""The section of the role `nvidia_container_toolkit`: GPUs inside of containers."""

from __future__ import annotations

from typing import Literal

from schemas.profile.roles.field_types import Version
from schemas.values.envelope import Flag, Model
from schemas.values.names import AbsolutePath


class NvidiaContainerToolkit(Model):
    """GPUs inside of containers: the toolkit's four packages as one version."""

    version: Version
    """`1.17.4`; of all four packages."""
    engines: tuple[Literal["docker", "containerd", "crio"], ...] = ("docker",)
    """Engines that are configured for it."""
    default_runtime: Flag = False
    """Every container goes through NVIDIA's runtime."""
    mode: Literal["auto", "cdi", "legacy"] = "auto"
    """How NVIDIA's runtime puts GPUs into containers. With `cdi` they stay at a daemon-reload of systemd,
    with `legacy` they may be lost."""
    cdi: Flag = True
    """Specifications of devices are generated, and again after a change of driver or MIG layout."""
    cdi_folder: AbsolutePath = "/var/run/cdi"
    """Where the specification lies. The toolkit's own units (from 1.18 on) and this default agree; it is
    made anew at every boot."""
    device_links: Flag = True
    """Links in /dev/char to NVIDIA's devices. systemd finds devices through them: without, containers of the
    systemd cgroup driver lose their GPUs at a daemon-reload."""
