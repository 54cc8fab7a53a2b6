"""The demo's cluster as a loop has it: its repository, its clock and its machines in place of real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bai.controller.document_sources import RemoteOrigin
from bai.controller.loop_threads import LoopSettings
from bai.settings import Settings
from bai.web.cluster_loops import ServedCluster, Simulation
from bai.web.demo.day import PAST, STEP, SimulatedDay
from bai.web.demo.demo_repository import DemoRepository
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.gitops.directives import Directives
from reconciler.gitops.document_source import D, DocumentSource, FollowedRef, RenewedDocuments
from reconciler.sources.source import Source

INTERVAL = 2.0
"""Seconds between two passes."""


class DemoCluster:
    """All of it is below `folder`. `now`: when the past ends that `live_past` goes through."""

    def __init__(self, folder: Path, now: float, seed: int) -> None:
        remote = folder / "cluster.git"
        self.day = SimulatedDay(DemoRepository(remote), now, seed)
        self.settings = Settings(state=str(folder / "store.db"))
        self.origin = RemoteOrigin(str(remote), home=folder / "copy")
        self.loop_settings = LoopSettings(LoopOptions("bai serve --demo", INTERVAL), log=lambda *line: None)

    def take_over(self, loop: Loop) -> None:
        """Time is the day's, and so are the machines; before its first pass."""
        loop.workspace.clock = self.day.world.clock
        loop.workspace.provider = self.day.provider

    def live_past(self, loop: Loop, is_ended: Callable[[], bool] = lambda: False) -> None:
        """Pass after pass, until it is over, or `is_ended`."""
        end = self.day.began + PAST
        while self.day.now < end and not is_ended():
            self.day.advance(min(end, self.day.now + STEP))
            loop.once()

    def go_on(self, cluster: ServedCluster, pace: float, monotonic: Callable[[], float]) -> None:
        """From here on time passes by itself: so many seconds in one of ours."""
        here, then = monotonic(), self.day.now

        def pass_time() -> None:
            self.day.advance(max(self.day.now, then + (monotonic() - here) * pace))

        cluster.simulation = Simulation(pace)
        cluster.loop.documents = LivingDocuments(cluster.loop.documents, pass_time)


class LivingDocuments:
    """The same documents; before they are looked at, time passes, in which people commit."""

    def __init__(self, documents: DocumentSource, pass_time: Callable[[], None]) -> None:
        self._documents, self._pass_time = documents, pass_time

    @property
    def followed(self) -> FollowedRef | None:
        return self._documents.followed

    def renew(self, opened: D, directives: Directives) -> RenewedDocuments[D]:
        self._pass_time()
        return self._documents.renew(opened, directives)

    def at_commit(self, commit: str, opened: D) -> D:
        return self._documents.at_commit(commit, opened)

    def find_commit(self, name: str, source: Source, *, fresh: bool = False) -> str:
        return self._documents.find_commit(name, source, fresh=fresh)
