"""A part of a GPU, as a kernel is given it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class GpuShare:
    """Limits on a part of each of a kernel's GPUs, and what enforces them."""

    means: Literal["mps", "hami", "mig", "none"]
    milli: Mapping[str, int]
    """Device id → thousandths of its compute."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """Device id → bytes of its memory; a device that is missing is not limited."""
    most: int = 1000
    """The largest part, in thousandths, that anybody may have: whoever gets around his own is held to it."""
