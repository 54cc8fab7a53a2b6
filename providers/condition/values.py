"""What a provisioned node carries, and whether it still is what that says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ProvisionStamp:
    """What the last finished provisioning left on the node: `/var/lib/bai/seal.json`."""

    profile: str
    fingerprint: str
    document: Mapping[str, Any] = field(default_factory=dict)
    """The profile's spec in canonical form, as it was."""
    at: float = 0.0
    """Seconds since the epoch, by the clock of who provisioned."""
    boot_id: str = ""
    unfinished: bool = False
    """Another provisioning began after it, and did not come to its end."""


@dataclass(frozen=True, slots=True, order=True)
class Deviation:
    """One watched thing that is not as it was sealed."""

    what: str
    """`package nvidia-driver`, `file /etc/docker/daemon.json mode`, `sysctl vm.swappiness`, `unit x`, ..."""
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.what} is {self.found}, sealed {self.expected}"


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """How a node stands."""

    node: str
    stamp: ProvisionStamp | None = None
    """None: never provisioned (or its stamp cannot be read: `stamp_problem`)."""
    deviations: tuple[Deviation, ...] = ()
    os: str = ""
    """As in ProvisionTarget.os; another name (`fedora-40`) for a system that is not known."""
    kernel: str = ""
    """The release that runs."""
    boot_id: str = ""
    reboot_pending: str = ""
    """Why the node waits for a reboot; empty when it does not."""
    stamp_problem: str = ""

    def converged(self, fingerprint: str) -> bool:
        """Whether nothing is to be done for a profile of this fingerprint."""
        stamp = self.stamp
        return (
            stamp is not None
            and not stamp.unfinished
            and stamp.fingerprint == fingerprint
            and not self.deviations
        )
