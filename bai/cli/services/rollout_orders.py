"""Orders about one service: left in the store, or with a server."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from bai.actor import current_actor
from bai.queries.services.undo import Undo

if TYPE_CHECKING:
    from bai.queries.view import ClusterView
    from bai.remote.cluster import RemoteCluster
    from bai.settings import Settings
    from reconciler.store.store import Store


class RolloutOrders(Protocol):
    """Where they are left. Each raises BaiError, having changed nothing."""

    def undo(self, service: str, to: str, why: str) -> Undo:
        """`to`: a generation; empty for the last that was complete before the one that is wanted now."""
        ...

    def resume(self, service: str, why: str) -> tuple[str, bool]:
        """The service's identity, and whether there was an order."""
        ...


@dataclass(frozen=True, slots=True)
class StoreRollouts:
    """By whoever runs this command."""

    view: ClusterView
    store: Store

    def undo(self, service: str, to: str, why: str) -> Undo:
        from bai.queries.services.facts import service_facts
        from bai.queries.services.undo import choose_undo
        from reconciler.gitops.rollout_orders import give_rollout_order
        from reconciler.values.services.state import RolloutOrder

        found = choose_undo(service_facts(self.view, self._find(service)), to)
        if found.ends_order:
            self.resume(service, why)
            return found
        order = RolloutOrder(found.service, found.generation, found.latest, current_actor(), self.view.now)
        give_rollout_order(self.store, self.view.cluster, order, commit=found.commit, why=why)
        return found

    def resume(self, service: str, why: str) -> tuple[str, bool]:
        from reconciler.gitops.rollout_orders import end_rollout_order

        identity = self._find(service)
        ended = end_rollout_order(
            self.store, self.view.cluster, identity, actor=current_actor(), at=self.view.now, why=why
        )
        return identity, ended

    def _find(self, service: str) -> str:
        from bai.queries.names.resource_names import resolve_name

        return resolve_name(service, {*self.view.wanted, *self.view.observed.existing}, "Service")


@dataclass(frozen=True, slots=True)
class ServerRollouts:
    """By whoever is logged in; the server chooses."""

    remote: RemoteCluster

    def undo(self, service: str, to: str, why: str) -> Undo:
        body = {"generation": to, "why": why} if to else {"why": why}
        found = self.remote.order_rollout(str(self.remote.service(service)["id"]), "undo", body)
        generation, latest = (_text(found.get(name)) for name in ("generation", "latest"))
        commit, latest_commit = (_commit(found.get(name)) for name in ("commit", "latestCommit"))
        return Undo(_text(found.get("service")), generation, commit, latest, latest_commit)

    def resume(self, service: str, why: str) -> tuple[str, bool]:
        identity = str(self.remote.service(service)["id"])
        return identity, bool(self.remote.order_rollout(identity, "resume", {"why": why}).get("ended"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _commit(value: Any) -> str:
    """A part of a command that people are told: nothing but a commit's name."""
    found = _text(value)
    return found if re.fullmatch(r"[0-9a-f]{7,64}", found) else ""


@contextlib.contextmanager
def open_rollouts(settings: Settings) -> Iterator[RolloutOrders]:
    """Raises BaiError."""
    from bai.cli.reading import remote_cluster

    remote = remote_cluster(settings)
    if remote is not None:
        yield ServerRollouts(remote)
        return
    from bai.queries.view import WorkspaceView

    with settings.reading_workspace() as workspace:
        yield StoreRollouts(WorkspaceView.of(workspace), workspace.store)
