"""What others than bai use of the nodes, where somebody else gives their room away, too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ForeignUse:
    """What others than bai use of a node, together."""

    node: str
    owner: str
    """Who, in words."""
    cpu_milli: int = 0
    memory: int = 0
    """Bytes."""
    devices: tuple[str, ...] = ()
    """Ids, as the node's hardware has them."""
