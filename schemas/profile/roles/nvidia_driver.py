"""The section of the role `nvidia_driver`: kernel modules and user space of one exact version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from schemas.profile.roles.field_types import Package, Version
from schemas.values.envelope import Flag, Model
from schemas.values.names import Text

Flavour = Literal["open", "proprietary"]


class NvidiaDriver(Model):
    """Kernel modules and user space of one exact version."""

    version: Version
    """The driver's own version in full, `550.90.07`; a branch is not enough."""
    flavour: Flavour | None = None
    """Of the kernel modules. Left out: `open` from branch 560 on, `proprietary` before."""
    gpus: tuple[Text, ...] = ()
    """Models of the GPUs it is for (`H100`, `A100-SXM4-80GB`), where nodes do not declare theirs: version and
    flavour are checked against them too."""
    build: Literal["dkms", "precompiled"] = "dkms"
    """Kernel modules are built on the node with the kernel's headers, or come ready for this kernel."""
    packages: tuple[Package, ...] = ()
    """Instead of the packages that the role knows for system, branch and flavour; all of one version."""
    headers: Package | None = None
    """The package with the running kernel's headers. Left out: what the distribution calls it."""
    persistence: Flag = True
    """nvidia-persistenced keeps the GPUs initialised."""
    module_options: Mapping[Text, Text] = {}
    """Options of the module nvidia, `NVreg_...`. They count when the module is loaded: a change asks for a
    reboot."""
    expected_gpus: Literal["all", "any"] = "all"
    """`all`: the driver must answer for every NVIDIA GPU on the PCI bus; one it does not see is a failure."""
