"""A booted node and a mirror of stand-ins for NVIDIA's packages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.lab import nvidia
from tests.lab.nspawn import Nodes
from tests.lab.packages import Repository
from tests.roles.role_site import RoleSite

OLD, NEW, BRANCH = "580.82.07", "580.95.05", "550.90.07"
"""Two versions of one branch, and one of an older branch whose packages are called otherwise."""


class Site(RoleSite):
    """With two GPUs behind NVSwitches, as far as the stand-ins can tell."""

    reboots = True

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        super().__init__(nodes, folder)
        self.node.must("mkdir -p /etc/fake-nvidia && touch /etc/fake-nvidia/nvswitch")
        self.repository = Repository(nodes.shared / "nvidia")
        for version in (OLD, NEW, BRANCH):
            self.repository.add(*nvidia.driver(version), nvidia.fabric_manager(version))
        for version in ("1.17.4", "1.18.0"):
            self.repository.add(*nvidia.toolkit(version))
        self.repository.add(*nvidia.gds("1.11.1.6", "2.22.3", cuda="12.6"))
        self.repository.add(nvidia.headers(os.uname().release))
        self.repository.publish()

    def repositories(self) -> dict[str, Any]:
        """RDMA's packages are the distribution's own."""
        source = {"name": "nvidia", "uri": self.repository.file_uri, "suites": ["stable"], "trusted": True}
        return {"apt": [{**source, "components": ["main"]}], "only": False}

    def versions(self) -> dict[str, str]:
        """Of NVIDIA's packages that are installed, without the packaging's own revision."""
        lines = self.node.must(r"dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n'").splitlines()
        rows = [line.split() for line in lines if line.startswith("installed ")]
        ours = ("nvidia", "libnvidia", "libcuda1", "gds-tools", "libcufile")
        return {name: full.removesuffix("-1") for _, name, full in rows if name.startswith(ours)}
