"""Notifications of a cluster, each with what became of its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.notify.state import Outbox
    from reconciler.store.reader import StoreReader
    from schemas.kinds.notification import Notification
    from schemas.repository.repository import Repository


def notification_boxes(
    repository: Repository, store: StoreReader | None, cluster: str
) -> tuple[tuple[Notification, Outbox], ...]:
    """By name; an empty box before anything was to be told. Raises StoreError."""
    from reconciler.notify.conditions import notifications_for_cluster
    from reconciler.notify.state import Outbox, parse_state, state_key
    from schemas.kinds.notification import Notification

    state = parse_state(store.meta(state_key(cluster))) if store is not None else None
    boxes = state.boxes if state else {}
    found = notifications_for_cluster(repository.of(Notification), cluster)
    return tuple((each, boxes.get(each.name) or Outbox()) for each in found)


def waiting_count(box: Outbox) -> int:
    """News that are to be told yet."""
    return len(box.waiting) + (len(box.sending.news) if box.sending else 0)
