"""How a loop goes, whatever cluster it is for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """Made of what `bai reconcile` and `bai serve` are told; read by the loop."""

    holder: str
    """By whose name it writes."""
    interval: float
    """Seconds from one pass to the next, where nothing happens."""
    observe_only: bool = False
    """Whether it says what it would do, and does nothing."""
    parallel: int = 32
    """Most actions of an apply at a time."""
