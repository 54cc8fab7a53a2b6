"""Whether there is anything new about a cluster: found once for each pass, however many pages are open."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from bai.web.cluster_loops import ServedCluster
from reconciler.controller.cycle import ReconcileCycle
from schemas.problems.errors.store import StoreError


class ClusterNews:
    """Counts the passes after which pages show something else than before. `listeners` are called in the
    loop's thread after each of them."""

    def __init__(self, cluster: ServedCluster) -> None:
        self.count = 0
        self.listeners: list[Callable[[], None]] = []
        self._cluster = cluster
        self._known: Hashable = None
        cluster.listeners.append(self._on_pass)

    def _on_pass(self, done: ReconcileCycle) -> None:
        try:
            now = _state(self._cluster, done)
        except StoreError:
            return  # It is gone for a while, and the loop goes on: the next pass that has it tells.
        if now == self._known:
            return
        self._known = now
        self.count += 1
        for listener in tuple(self.listeners):
            listener()


def _state(cluster: ServedCluster, done: ReconcileCycle) -> Hashable:
    """Equal as long as no page shows anything else. Raises StoreError."""
    plan = done.plan
    return (
        cluster.loop.workspace.store.revision(cluster.name),
        done.commit,
        done.good,
        done.notes,
        cluster.loop.leader(),
        (plan.waits, plan.changes) if plan is not None else None,
    )
