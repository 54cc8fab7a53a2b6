"""Where trials of parts of GPUs are remembered in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reconciler.values.records import EnforcementRecord


class Remembered:
    """An `EnforcementMemory`."""

    def __init__(self) -> None:
        self.postponed: dict[tuple[str, str], tuple[float, EnforcementRecord]] = {}
        self.records: dict[tuple[str, str], EnforcementRecord] = {}

    def recorded(self) -> Mapping[tuple[str, str], EnforcementRecord]:
        return dict(self.records)

    def record(self, found: Sequence[EnforcementRecord]) -> None:
        self.records |= {(each.node, each.means): each for each in found}
