"""What is known of a node's health, and what is expected of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from providers.health.codes import CODES, RANK, Finding, Severity

if TYPE_CHECKING:
    from providers.health.facts import MachineFacts


@dataclass(frozen=True, slots=True)
class ExpectedGpu:
    """A GPU as it is recorded."""

    id: str
    index: int
    pci: str = ""
    links: int = 0
    """NVLinks that were up when it was probed."""
    instances: tuple[str, ...] = ()
    """Its MIG instances."""


@dataclass(frozen=True, slots=True)
class ExpectedNode:
    """What a node's records and profile say. Nothing is expected where they say nothing."""

    gpus: tuple[ExpectedGpu, ...] = ()
    switches: int = 0
    ports: Mapping[str, int] = field(default_factory=dict)
    """RDMA device → Mbit/s that it ran at."""
    engine: str = ""
    """Unit that runs sessions: `docker`."""
    cdi: bool = False
    """Its profile installs the container toolkit."""
    driver: bool = False
    """Its profile installs NVIDIA's driver."""
    persistence: bool = True
    mounts: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeHealth:
    """One node now. `problem`: why it could not be asked; then nothing else is known."""

    node: str
    findings: tuple[Finding, ...] = ()
    facts: MachineFacts | None = None
    expected: ExpectedNode = ExpectedNode()
    problem: str = ""

    @property
    def severity(self) -> Severity:
        """Of the worst finding."""
        return min((each.severity for each in self.findings), key=RANK.__getitem__, default="ok")

    @cached_property
    def unfit(self) -> Mapping[str, str]:
        """GPU → why it gets no new sessions."""
        found: dict[str, str] = {}
        for each in self.findings:
            takes = CODES[each.code].takes if each.severity == "critical" else ""
            gone = [gpu.id for gpu in self.expected.gpus] if takes == "gpus" else [each.device]
            for gpu in gone if takes else ():
                found.setdefault(gpu, each.what)
        return found

    @cached_property
    def judged(self) -> frozenset[str]:
        """GPUs whose state is known now, whatever was recorded of it."""
        return frozenset(gpu.id for gpu in self.expected.gpus) if self.facts is not None else frozenset()

    def gpu_of(self, device: str) -> str:
        """The GPU that a device is, or is an instance of."""
        return next((gpu.id for gpu in self.expected.gpus if device in gpu.instances), device)

    def name(self, device: str) -> str:
        """A device for a person: `gpu 3`."""
        index = next((gpu.index for gpu in self.expected.gpus if gpu.id == device), None)
        return device if index is None else f"gpu {index}"
