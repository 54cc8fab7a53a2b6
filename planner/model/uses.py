"""What quotas and groups use, before a plan and after it. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SlotMap = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Use of one quota before and after the plan; slots in smallest units."""

    quota: str
    subject: str
    limit: SlotMap
    before: SlotMap
    after: SlotMap


@dataclass(frozen=True, slots=True)
class GroupUse:
    """One group's capacity and what is allocated before and after; `fits_before`/`fits_after`: how many more
    sessions of a size (`1 GPU`, `2 GPUs`, ...) fit."""

    group: str
    capacity: SlotMap
    before: SlotMap
    after: SlotMap
    fits_before: Mapping[str, int] = field(default_factory=dict)
    fits_after: Mapping[str, int] = field(default_factory=dict)
