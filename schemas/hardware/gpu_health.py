"""When a GPU is unfit for use, by NVIDIA's GPU debug guidelines: what needs a reset or a replacement.
Standard library only."""

from __future__ import annotations

from typing import NamedTuple

_MAX_RETIRED_PAGES = 60


class HealthCounters(NamedTuple):
    """What is known; a fact that is not known is no complaint."""

    uncorrected: int = 0
    """Uncorrected ECC errors since the driver was loaded."""
    rows_failed: bool = False
    rows_pending: bool = False
    retired: int = 0
    """Pages retired for double-bit errors."""
    retirement_pending: bool = False


def health_problems(seen: HealthCounters) -> list[str]:
    """Everything that makes the GPU unfit, in words; empty when it is fit."""
    found = []
    if seen.uncorrected:
        found.append(f"{seen.uncorrected} uncorrected ECC errors since the driver was loaded")
    if seen.rows_failed:
        found.append("row remapping failed: replace the GPU")
    if seen.rows_pending:
        found.append("row remapping pending: reset the GPU")
    if seen.retired >= _MAX_RETIRED_PAGES:
        found.append(f"{seen.retired} pages retired for double-bit errors: replace the GPU")
    if seen.retirement_pending:
        found.append("page retirement pending: reset the GPU")
    return found
