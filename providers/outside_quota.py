"""What somebody else than bai allows a project's kernels together, and refuses beyond."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PODS = "pods"
CLAIMS = "resourceclaims"
"""Beside the slots of the planner: kernels, and the claims by which they have their devices."""


@dataclass(frozen=True)
class OutsideQuota:
    """One limit, as it stands now. Amounts are in the smallest unit of each slot (`cpu` in thousandths of a
    core, `mem` in bytes), and whole pods and claims."""

    name: str
    """Who limits: `ResourceQuota/team-vision/compute`."""
    project: str
    """Whose kernels count; empty: those of all projects."""
    hard: Mapping[str, int]
    others: Mapping[str, int]
    """What others than bai use of it, of each name in `hard`."""
