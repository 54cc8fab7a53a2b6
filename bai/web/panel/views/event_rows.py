"""What happened to a resource, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import iso_time

if TYPE_CHECKING:
    from bai.web.pass_view import PassView

MOST = 50


@dataclass(frozen=True, slots=True)
class EventRow:
    """One transition; `at` as ISO 8601, `before` and `after` are empty where there was or is nothing."""

    at: str
    before: str
    after: str
    cause: str
    actor: str
    commit: str
    result: str


def event_rows(view: PassView, identity: str, most: int = MOST) -> tuple[EventRow, ...]:
    """The last ones of a resource; none of one that the viewer does not see. Raises StoreError."""
    store = view.store
    if store is None or not view.sees(identity):
        return ()
    found = store.events(view.cluster, resource=identity, limit=most)
    return tuple(
        EventRow(
            at=iso_time(each.at),
            before=each.before,
            after=each.after,
            cause=view.redact(each.cause),
            actor=view.redact(each.actor),
            commit=each.commit,
            result=each.result,
        )
        for each in reversed(found)
    )
