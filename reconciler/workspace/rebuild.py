"""A lost store made anew from the labels of what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from providers.base import Observation
from reconciler.observe.clock_skew import RELEASED
from reconciler.observe.observe import combine
from reconciler.sources.source import path_id
from reconciler.store.database.address import Address
from reconciler.values.records import Audit, Event, Put, Recorded, StoreChange
from schemas.problems.errors import IncompleteObservation

if TYPE_CHECKING:
    from reconciler.workspace.workspace import Workspace


def rebuild(workspace: Workspace, holder: str, tell: Callable[[str], None]) -> tuple[str, ...]:
    """Fill an empty or lost store from the labels of what runs; gives the identities recovered. `tell` hears
    what else was done.

    Raises IncompleteObservation before anything is done, LeaseHeld, StoreError.
    """
    from reconciler.store.ownership import known_repository, remember_repository

    seen = workspace.provider.observe()
    _require_complete(seen)
    _make_room(workspace.state, tell)
    store, source, cluster = workspace.store, workspace.source, workspace.cluster.name
    if known_repository(store, cluster) is None:
        repo = owner(seen, cluster, (source.repo, path_id(source.directory)))
        remember_repository(store, cluster, repo)
        workspace.call_itself(repo)
    now = workspace.clock.now()
    with workspace.lease(holder) as lease:
        known = store.recorded(cluster)
        changes = rebuilt(seen, repo=workspace.repo_id, cluster=cluster, known=known, now=now, actor=holder)
        late = store.set_right(lease, now) if now >= RELEASED else 0
        if late:
            tell(f"{late} times of the future are set to now.")
        cause = f"{len(changes)} changes from the labels of what runs, {late} times of the future set to now"
        store.write(lease, [*changes, Audit("rebuild", "", now, cause)])
    return tuple(change.record.resource for change in changes if isinstance(change, Put))


def _require_complete(seen: Observation) -> None:
    if not seen.complete:
        raise IncompleteObservation(why="; ".join(seen.errors) or "the provider could not say why")


def _make_room(address: Address, tell: Callable[[str], None]) -> None:
    """Where a file stands that cannot be used."""
    from reconciler.store.maintenance.quarantine import set_aside, why_unusable

    if address.path is not None and (why := why_unusable(address.path)):
        kept = set_aside(address.path)
        tell(f"{address.path} cannot be used: {why}. It is kept as {kept}.")


def owner(seen: Observation, cluster: str, candidates: Iterable[str]) -> str:
    """The repository id, of those that this repository may go by, that kernels really carry; the first when
    none does."""
    ids = list(candidates)
    found = {kernel.labels.repo for kernel in seen.kernels if kernel.labels.cluster == cluster}
    return next((each for each in ids if each in found), ids[0])


def rebuilt(
    seen: Observation, *, repo: str, cluster: str, known: Iterable[str], now: float, actor: str
) -> tuple[StoreChange, ...]:
    """Records of all sessions that run and are not `known`, each with an event.

    Raises IncompleteObservation: half a store would be worse than none.
    """
    _require_complete(seen)
    actual = combine({}, seen, None, repo=repo, cluster=cluster, hardware={})
    there = set(known)
    changes: list[StoreChange] = []
    for identity, each in actual.existing.items():
        if identity.startswith("Session/") and identity not in there:
            changes += (Put(each.recorded), _event(each.recorded, now, actor))
    return tuple(changes)


def _event(record: Recorded, now: float, actor: str) -> Event:
    return Event(record.resource, "", record.phase, "rebuilt from labels", now, actor, record.commit)
