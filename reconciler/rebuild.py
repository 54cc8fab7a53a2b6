"""A lost store made anew from the labels of what runs."""

from __future__ import annotations

from collections.abc import Iterable

from providers.base import Observation
from reconciler.observe import combine
from reconciler.records import Event, Put, Recorded, StoreChange
from schemas.errors import IncompleteObservation


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
    if not seen.complete:
        raise IncompleteObservation(why="; ".join(seen.errors) or "the provider could not say why")
    actual = combine({}, seen, None, repo=repo, cluster=cluster, hardware={})
    there = set(known)
    changes: list[StoreChange] = []
    for identity, each in actual.existing.items():
        if identity.startswith("Session/") and identity not in there:
            changes += (Put(each.recorded), _event(each.recorded, now, actor))
    return tuple(changes)


def _event(record: Recorded, now: float, actor: str) -> Event:
    return Event(record.resource, "", record.phase, "rebuilt from labels", now, actor, record.commit)
