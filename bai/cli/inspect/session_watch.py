"""What happens to sessions after `bai get --watch` has shown them, one line each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.cli.formats import Format
    from bai.render.resources.session_filter import SessionFilter
    from reconciler.store.store import Store
    from reconciler.values.records import Event


@dataclass
class SessionWatch:
    """Made before sessions are looked at, so that no change falls between the table and the first line.

    The store tells when a cluster's records change; only then are events read, and only those that are new.
    """

    store: Store
    cluster: str
    asked: SessionFilter
    project: str = ""
    only: str = ""
    """One session's identity."""
    chosen: dict[str, bool] = field(default_factory=dict)
    """Session → whether its document is asked for."""

    def __post_init__(self) -> None:
        self._since = self.store.revisions()
        self._last = max((event.seq for event in self.store.events(self.cluster, limit=1)), default=0)

    def follow(self, format: Format) -> None:
        """Until somebody interrupts."""
        from bai.cli.inspect.event_list import print_events

        try:
            for changed in self.store.watch_changes(self._since, stop=lambda: False):
                if self.cluster in changed:
                    print_events(self.news(), format)
        except KeyboardInterrupt:
            return

    def news(self) -> tuple[Event, ...]:
        """Those that are asked for, since the last call."""
        found = self.store.events(self.cluster, after=self._last)
        self._last = max((event.seq for event in found), default=self._last)
        found = tuple(event for event in found if self._is_named(event.resource))
        self._judge({event.resource for event in found} - self.chosen.keys())
        return tuple(
            event
            for event in found
            if self.chosen[event.resource] and self.asked.matches_phase(event.before, event.after)
        )

    def _is_named(self, identity: str) -> bool:
        ref = ref_of(identity)
        if ref.kind != "Session" or (self.only and identity != self.only):
            return False
        return not self.project or ref.project == self.project

    def _judge(self, unknown: Iterable[str]) -> None:
        """Records are read only for sessions that came after the table."""
        fresh = set(unknown)
        if not fresh:
            return
        recorded = self.store.recorded(self.cluster, "Session")
        for identity in fresh:
            record = recorded.get(identity)
            self.chosen[identity] = self.asked.matches_document(record.document if record else {})
