"""What one capture knows about a machine. None means that it does not know; every importer fills in a
`Facts` and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.hardware.model import Hardware


class UnreadableCapture(ValueError):
    """A capture that is not what it seems, in words, with the line and column (from 1) where they are known,
    and what would be right."""

    def __init__(self, why: str, line: int = 1, column: int = 1, hint: str = "") -> None:
        self.line = line
        self.column = column
        self.hint = hint
        super().__init__(why)


@dataclass
class NodeFacts:
    """One NUMA node."""

    cpus: tuple[int, ...] | None = None
    memory: int | None = None
    kind: str | None = None
    distances: dict[int, int] = field(default_factory=dict)


@dataclass
class LinkFacts:
    """How two devices, by their ids in the same capture, are connected."""

    a: str
    b: str
    kind: str
    count: int = 1


@dataclass
class Facts:
    """Devices are dictionaries with the model's field names; a field that is missing or None is not known."""

    source: str
    """The kind of capture, in words: `nvidia-smi topo -m`."""
    architecture: str | None = None
    hostname: str | None = None
    nodes: dict[int, NodeFacts] = field(default_factory=dict)
    all_nodes: bool = False
    """Whether these are all nodes there are."""
    siblings: tuple[tuple[int, ...], ...] | None = None
    offline: tuple[int, ...] | None = None
    isolated: tuple[int, ...] | None = None
    gpus: list[dict[str, Any]] | None = None
    nics: list[dict[str, Any]] | None = None
    disks: list[dict[str, Any]] | None = None
    links: list[LinkFacts] = field(default_factory=list)
    nv_switches: int | None = None
    software: dict[str, str | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What stays unknown or doubtful whatever other captures say."""

    def node(self, number: int) -> NodeFacts:
        return self.nodes.setdefault(number, NodeFacts())


_TOLD_AGAIN = (
    "architecture",
    "NUMA nodes",
    "CPUs of NUMA nodes",
    "memory of NUMA nodes",
    "NUMA distances",
    "SMT siblings",
    "GPUs",
    "models of GPUs",
    "memory of GPUs",
    "MIG instances of GPUs",
    "PCI addresses of GPUs",
    "links between",
    "NICs",
    "drives",
)
"""How what `combine` finds missing begins; it is found again."""


def hardware_facts(hardware: Hardware, source: str) -> Facts:
    """A machine that was read before, as facts to combine with others."""
    parts: Mapping[str, Any] = hardware.model_dump(mode="python")
    missing = set(hardware.unknown)

    def known(words: str, value: Any) -> Any:
        return None if words in missing else value

    nodes = {
        node.id: NodeFacts(node.cpus, node.memory or None, node.kind, dict(node.distances))
        for node in hardware.numa_nodes
        if "NUMA nodes and CPUs" not in missing
    }
    return Facts(
        source=source,
        architecture=known("architecture", hardware.architecture),
        hostname=hardware.hostname,
        nodes=nodes,
        all_nodes=bool(nodes) and "NUMA nodes that no GPU is near" not in missing,
        siblings=known("SMT siblings", hardware.siblings),
        offline=hardware.offline_cpus,
        isolated=hardware.isolated_cpus,
        gpus=known("GPUs", list(parts["gpus"])),
        nics=known("NICs", list(parts["nics"])),
        disks=known("drives", list(parts["disks"])),
        links=[LinkFacts(link.a, link.b, link.kind, link.count) for link in hardware.links],
        nv_switches=known("GPUs", hardware.nv_switches),
        software=dict(parts["software"]),
        notes=[words for words in hardware.unknown if not words.startswith(_TOLD_AGAIN)],
    )
