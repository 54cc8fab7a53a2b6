"""What happens to sessions after `bai get --watch` has shown them, one line each."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.queries.models import GetQuery
    from bai.queries.view import ClusterView
    from bai.remote.cluster import RemoteCluster
    from bai.settings import Settings
    from reconciler.store.store import Store
    from reconciler.values.records import Event


class SessionNews(Protocol):
    """Where news come from. Made before sessions are looked at, so that no change falls between the table and
    the first line."""

    def batches(self) -> Iterator[tuple[Event, ...]]:
        """What happened since it was made, as it happens, without an end."""
        ...

    def asked_of(self, sessions: Iterable[str], query: GetQuery) -> set[str]:
        """Those whose documents are what the query asks for."""
        ...


class StoreNews:
    """The store tells when a cluster's records change; only then are events read, and only those that are
    new."""

    def __init__(self, view: ClusterView, store: Store) -> None:
        self._view, self._store, self._cluster = view, store, view.cluster
        self._since = self._store.revisions()
        self._last = max((event.seq for event in self._store.events(self._cluster, limit=1)), default=0)

    def batches(self) -> Iterator[tuple[Event, ...]]:
        for changed in self._store.watch_changes(self._since, stop=lambda: False):
            if self._cluster in changed:
                yield self.fresh()

    def fresh(self) -> tuple[Event, ...]:
        """Since the last call."""
        found = self._store.events(self._cluster, after=self._last)
        self._last = max((event.seq for event in found), default=self._last)
        return found

    def asked_of(self, sessions: Iterable[str], query: GetQuery) -> set[str]:
        from bai.queries.resources import session_filter

        asked, records = session_filter(self._view, query), self._store.recorded(self._cluster, "Session")
        documents = {each: records[each].document if each in records else {} for each in sessions}
        return {each for each, document in documents.items() if asked.matches_document(document)}


class ServerNews:
    """A server's stream, which begins before the sessions are asked for; to be closed."""

    def __init__(self, remote: RemoteCluster) -> None:
        self._remote = remote
        self._events = remote.events()
        self._events.begin()

    def close(self) -> None:
        self._events.close()

    def batches(self) -> Iterator[tuple[Event, ...]]:
        return ((event,) for event in self._events)

    def asked_of(self, sessions: Iterable[str], query: GetQuery) -> set[str]:
        return {each for each in sessions if self._is_asked(each, query)}

    def _is_asked(self, identity: str, query: GetQuery) -> bool:
        from schemas.problems.errors.server import NotOnServer

        same = query.model_copy(update={"name": identity, "phase": "", "sort": "", "form": "json"})
        try:
            return bool(self._remote.read(same).document.get("items"))
        except NotOnServer:
            return False  # It is gone, or not ours to see.


@dataclass
class SessionWatch:
    """Which of the news are asked for."""

    news: SessionNews
    query: GetQuery
    _asked: dict[str, bool] = field(default_factory=dict)
    """Session → whether its document is asked for: judged once, when something happens to it."""

    def follow(self) -> None:
        """Print without an end."""
        from bai.cli.formats import Format
        from bai.cli.inspect.event_list import print_events

        format = Format.json if self.query.form == "json" else Format.text
        for found in self.news.batches():
            print_events(self.chosen(found), format)

    def chosen(self, found: tuple[Event, ...]) -> tuple[Event, ...]:
        """Those that are asked for."""
        from bai.render.resources.session_filter import SessionFilter, parse_phases

        phases = SessionFilter(parse_phases(self.query.phase))
        named = [event for event in found if self._is_named(event.resource)]
        if self.query.mine or self.query.selector:
            self._judge({event.resource for event in named} - self._asked.keys())
            named = [event for event in named if self._asked[event.resource]]
        return tuple(event for event in named if phases.matches_phase(event.before, event.after))

    def _is_named(self, identity: str) -> bool:
        from bai.queries.names.resource_names import is_named

        ref, query = ref_of(identity), self.query
        if ref.kind != "Session" or (query.name and not is_named(query.name, identity)):
            return False
        return not query.project or ref.project == query.project

    def _judge(self, unknown: set[str]) -> None:
        if unknown:
            asked = self.news.asked_of(unknown, self.query)
            self._asked |= {identity: identity in asked for identity in unknown}


def list_and_watch(settings: Settings, query: GetQuery) -> None:
    """Print sessions as they are now, then what becomes of them, until Ctrl-C."""
    from bai.cli.output import print_printout
    from bai.cli.reading import remote_cluster

    remote = remote_cluster(settings)
    if remote is not None:
        with contextlib.closing(ServerNews(remote)) as news, contextlib.suppress(KeyboardInterrupt):
            print_printout(settings, remote.read(query))
            sys.stdout.flush()
            SessionWatch(news, query).follow()
        return
    from bai.queries.answers import answer
    from bai.queries.view import WorkspaceView

    with settings.reading_workspace() as workspace, contextlib.suppress(KeyboardInterrupt):
        view = WorkspaceView.of(workspace)
        # What happens is written to the store, which is made where there is none.
        watch = SessionWatch(StoreNews(view, workspace.store), query)
        print_printout(settings, answer(view, query))
        sys.stdout.flush()
        watch.follow()
