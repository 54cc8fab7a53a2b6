"""Orders to the loop: who gives them, for which cluster, about which commit; left in the store, or with a
server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from bai.actor import current_actor
from bai.settings import Settings

if TYPE_CHECKING:
    from bai.remote.cluster import RemoteCluster
    from reconciler.gitops.directives import Directive, DirectiveKind
    from reconciler.store.store import Store

CommitOrder = Literal["approve", "pin"]


class LoopOrders(Protocol):
    """Where orders to one cluster's loop are left. Each raises BaiError, having changed nothing."""

    @property
    def cluster(self) -> str: ...

    def suspend(self, why: str) -> None: ...

    def resume(self, why: str) -> list[str]:
        """Which orders ended: `suspend`, `pin`."""
        ...

    def find_commit(self, revision: str) -> str:
        """Its full name, as far as it can be known before the order."""
        ...

    def give_for_commit(self, order: CommitOrder, commit: str, why: str) -> str:
        """The commit's full name."""
        ...


@dataclass(frozen=True, slots=True)
class StoreOrders:
    """By whoever runs this command."""

    store: Store
    cluster: str
    git: Path | None
    """The repository that commits are looked up in."""

    def suspend(self, why: str) -> None:
        self._give("suspend", self._directive(why))

    def resume(self, why: str) -> list[str]:
        from reconciler.gitops.directives import withdraw_directive

        orders: tuple[DirectiveKind, ...] = ("suspend", "pin")
        by = self._directive(why)
        return [order for order in orders if withdraw_directive(self.store, self.cluster, order, by)]

    def find_commit(self, revision: str) -> str:
        """Raises CannotRead when there is no such commit."""
        from schemas.files.git_objects import resolve_commit
        from schemas.problems.errors.repository import CannotRead

        if self.git is None:
            raise CannotRead(what=f"revision {revision}", why="this is no git repository")
        return resolve_commit(self.git, revision)

    def give_for_commit(self, order: CommitOrder, commit: str, why: str) -> str:
        found = self.find_commit(commit)
        self._give(order, self._directive(why, found))
        return found

    def _directive(self, why: str, commit: str = "") -> Directive:
        from reconciler.gitops.directives import Directive
        from reconciler.values.clock import SystemClock

        return Directive(current_actor(), SystemClock().now(), why, commit)

    def _give(self, order: DirectiveKind, directive: Directive) -> None:
        from reconciler.gitops.directives import issue_directive

        issue_directive(self.store, self.cluster, order, directive)


@dataclass(frozen=True, slots=True)
class ServerOrders:
    """By whoever is logged in; the server looks commits up."""

    remote: RemoteCluster

    @property
    def cluster(self) -> str:
        return self.remote.cluster

    def suspend(self, why: str) -> None:
        self.remote.order("suspend", {"why": why})

    def resume(self, why: str) -> list[str]:
        ended = self.remote.order("resume", {"why": why}).get("ended")
        return [str(each) for each in ended] if isinstance(ended, list) else []

    def find_commit(self, revision: str) -> str:
        return revision

    def give_for_commit(self, order: CommitOrder, commit: str, why: str) -> str:
        name = "rollback" if order == "pin" else order
        return str(self.remote.order(name, {"commit": commit, "why": why}).get("commit") or commit)


@contextlib.contextmanager
def open_orders(settings: Settings) -> Iterator[LoopOrders]:
    """Also where the documents cannot be used just now: that is when a loop is to be stopped. Raises
    BaiError."""
    from bai.cli.reading import remote_cluster

    remote = remote_cluster(settings)
    if remote is not None:
        yield ServerOrders(remote)
        return
    with _open_store_orders(settings) as orders:
        yield orders


@contextlib.contextmanager
def _open_store_orders(settings: Settings) -> Iterator[StoreOrders]:
    from reconciler.store.database.address import StoreAddress
    from reconciler.store.store import Store
    from schemas.problems.errors.repository import InvalidRepository

    try:
        with settings.reading_workspace() as workspace:
            yield StoreOrders(workspace.store, workspace.cluster.name, workspace.source.git)
            return
    except InvalidRepository:
        source = settings.source()
        address = StoreAddress.choose(source.directory, settings.state)
        if address.path is not None and not address.path.exists():
            raise
        with Store.open(address) as store:
            known = [settings.cluster] if settings.cluster else list(store.clusters())
            if len(known) != 1:
                raise
            yield StoreOrders(store, known[0], source.git)
