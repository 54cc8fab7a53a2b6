"""One process of those that share a store, as it acts for one cluster."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.store.store import Store
from reconciler.values.clock import Clock


@dataclass(frozen=True, slots=True)
class Replica:
    """Made beside each loop; read by all that take leases there: the leader's, and that of who tells
    people."""

    store: Store
    cluster: str
    holder: str
    """By whose name it takes leases."""
    clock: Clock
