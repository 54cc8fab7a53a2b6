"""Orders to the loop: who gives them, for which cluster, about which commit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bai.actor import holder
from bai.settings import Settings

if TYPE_CHECKING:
    from reconciler.gitops.directives import Order, Told
    from reconciler.store import Store


@dataclass(frozen=True, slots=True)
class Desk:
    """Where orders to one cluster's loop are left."""

    store: Store
    cluster: str
    git: Path | None
    """The repository that commits are looked up in."""

    def told(self, why: str, revision: str = "") -> Told:
        """An order of whoever runs this command. Raises CannotRead when there is no such commit."""
        from reconciler.gitops.directives import Told
        from reconciler.sources.git import commit_of
        from reconciler.values.clock import SystemClock
        from schemas.problems.errors import CannotRead

        if revision and self.git is None:
            raise CannotRead(what=f"revision {revision}", why="this is no git repository")
        commit = commit_of(self.git, revision) if revision and self.git else ""
        return Told(holder(), SystemClock().now(), why, commit)

    def give(self, order: Order, told: Told) -> None:
        from reconciler.gitops.directives import give

        give(self.store, self.cluster, order, told)

    def take_back(self, order: Order, told: Told) -> bool:
        """False when there was none."""
        from reconciler.gitops.directives import take_back

        return take_back(self.store, self.cluster, order, told)


@contextlib.contextmanager
def desk(settings: Settings) -> Iterator[Desk]:
    """Also where the documents cannot be used just now: that is when a loop is to be stopped. Raises
    BaiError."""
    from reconciler.store import Store
    from reconciler.store.database.address import Address
    from schemas.problems.errors import InvalidRepository

    try:
        with settings.workspace() as workspace:
            yield Desk(workspace.store, workspace.cluster.name, workspace.source.git)
            return
    except InvalidRepository:
        source = settings.source()
        address = Address.choose(source.directory, settings.state)
        if address.path is not None and not address.path.exists():
            raise
        with Store.open(address) as store:
            known = [settings.cluster] if settings.cluster else list(store.clusters())
            if len(known) != 1:
                raise
            yield Desk(store, known[0], source.git)
