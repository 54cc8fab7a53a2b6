"""What a person wants in place of a service's document: kept in the store until it is taken back, or the
document changes. Every order stands in the audit, and whoever leads looks at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.gitops.directives import request_reconcile
from reconciler.values.records import Audit

if TYPE_CHECKING:
    from reconciler.store.store import Store
    from reconciler.values.services.state import RolloutOrder


def give_rollout_order(
    store: Store, cluster: str, order: RolloutOrder, *, commit: str = "", why: str = ""
) -> None:
    """From now on it holds, in place of an earlier one of its service. `commit`: the generation's. Raises
    StoreError."""
    told = f"generation {order.generation} in place of {order.against}" + (f": {why}" if why else "")
    entry = Audit("undo-rollout", order.service, order.at, told, order.actor, commit=commit)
    store.put_rollout_order(cluster, order, entry)
    request_reconcile(store, cluster)


def end_rollout_order(
    store: Store, cluster: str, service: str, *, actor: str, at: float, why: str = ""
) -> bool:
    """The service goes by its document again; False when it did. Raises StoreError."""
    if service not in store.rollout_orders(cluster):
        return False
    entry = Audit("resume-rollout", service, at, why, actor)
    ended = store.remove_rollout_order(cluster, service, entry)
    request_reconcile(store, cluster)
    return ended
