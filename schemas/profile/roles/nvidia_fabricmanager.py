"""The section of the role `nvidia_fabricmanager`: what sets up the NVSwitches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from schemas.profile.roles.field_types import Package, Version
from schemas.values.envelope import Flag, Model
from schemas.values.names import Text


class NvidiaFabricmanager(Model):
    """What sets up the NVSwitches; always of the driver's exact version."""

    version: Version | None = None
    """The driver's when left out; anything else is refused."""
    nvswitch: Literal["auto", "present", "absent"] = "auto"
    """Whether the node has NVSwitches. `auto`: looked for on the PCI bus; without any, nothing is installed.
    `present`: where they are not to be seen there, as with the fifth generation of NVLink."""
    subnet_manager: Flag = False
    """NVLink's own subnet manager (package nvlsm), which boards with the fifth generation of NVLink need."""
    packages: tuple[Package, ...] = ()
    """Instead of the packages that the role knows for system and branch; all of the driver's version."""
    config: Mapping[Text, Text] = {}
    """Settings of fabricmanager.cfg, `FABRIC_MODE`."""
