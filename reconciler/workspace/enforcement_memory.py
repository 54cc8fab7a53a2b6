"""Where it is kept what trials of parts of GPUs came to: in a cluster's store."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from schemas.problems.errors.store import StoreError

if TYPE_CHECKING:
    from reconciler.values.records import EnforcementRecord
    from reconciler.workspace.connections import ClusterConnections


class StoredEnforcement:
    """An `EnforcementMemory`. The store is opened when it is first needed."""

    def __init__(self, connections: ClusterConnections) -> None:
        self._connections = connections
        self.postponed: dict[tuple[str, str], tuple[float, EnforcementRecord]] = {}

    def recorded(self) -> Mapping[tuple[str, str], EnforcementRecord]:
        """By node and means; nothing where nothing was ever written down. Raises StoreError."""
        store = self._connections.existing_reader
        return store.enforcement(self._connections.cluster.name) if store is not None else {}

    def record(self, found: Sequence[EnforcementRecord]) -> None:
        """What cannot be remembered is tried again."""
        if found:
            with contextlib.suppress(StoreError):
                self._connections.store.save_enforcement(self._connections.cluster.name, found)
