"""A device as its driver publishes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from providers.kubernetes.objects.quantity import parse_quantity

STANDARD = "resource.kubernetes.io/"
CPU_DRIVER = "dra.cpu"
"""Of kubernetes-sigs/dra-driver-cpu, which publishes each logical CPU where it is set up so (individual
mode), and pins containers to those of their claims."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device of one node. `attributes`: by their names without the driver's own domain."""

    id: str
    driver: str
    pool: str
    name: str
    node: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    tainted: str = ""
    """The taint that keeps it from being given out, where it has one."""
    several: bool = False
    """Its driver lets several claims have it (`allowMultipleAllocations`)."""

    @property
    def memory(self) -> int:
        """Bytes; 0 is not known."""
        return parse_quantity(self.capacity.get("memory") or "0")

    @property
    def cpu(self) -> int | None:
        """The logical CPU that it is, where it is one."""
        found = self.attributes.get("cpuID") if self.driver == CPU_DRIVER else None
        return found if type(found) is int else None

    @property
    def rdma(self) -> str:
        """The RDMA device that it is (`mlx5_0`), where it is one."""
        found = self.attributes.get("dra.net/rdmaDevice") or self.attributes.get("rdmaDevice")
        return found if isinstance(found, str) else ""

    @property
    def numa_node(self) -> int | None:
        names = (f"{STANDARD}numaNode", "numaNode", "numaNodeID", "dra.net/numaNode")
        found = next((self.attributes[name] for name in names if name in self.attributes), None)
        return found if type(found) is int and found >= 0 else None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.driver, self.pool, self.name
