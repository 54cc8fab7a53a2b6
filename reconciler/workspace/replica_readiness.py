"""How the replicas of services answer: asked once, for a command that looks once, or known at any time, where
a loop keeps asking."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from providers.base import Provider
    from reconciler.observe.readiness.one_round import Known
    from reconciler.observe.readiness.prober import Listener, Prober
    from reconciler.observe.readiness.questions import Replica
    from reconciler.observe.readiness.standing import Ask
    from reconciler.values.services.readiness import Readiness
    from reconciler.values.state import Actual, Desired
    from schemas.kinds.cluster import Cluster


class Opened(Protocol):
    """What a workspace has for this."""

    @property
    def cluster(self) -> Cluster: ...

    @property
    def provider(self) -> Provider: ...

    def desired(self) -> Desired: ...


class ReplicaReadiness:
    """Of one cluster; goes on through changes of its documents. `now`: seconds since the epoch."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._prober: Prober | None = None
        self._seen: tuple[object, object] | None = None
        self._replicas: Mapping[str, Replica] = {}
        self._shown: Mapping[str, Readiness] = {}
        self._known: dict[str, Known] = {}

    def keep_asking(self, wake: Callable[[], None]) -> None:
        """From the next look on replicas are asked again and again; `wake` is called, in another thread, when
        one has become ready, unready or dead."""
        from reconciler.observe.readiness.prober import Prober

        self._prober = Prober(self._now, wake)

    def add_readiness(self, found: Actual, opened: Opened) -> Actual:
        """What was seen, with what replicas say: what is known by now where they are asked again and again,
        else what they answer to this. Costs nothing where there are no services."""
        desired = opened.desired()
        if not desired.services and not self._replicas:
            return found
        replicas, ask = self._find(found, desired), _asking(opened)
        if self._prober is not None:
            self._prober.watch(replicas, ask)
            self._shown = self._prober.readings()
        else:
            self._known = self._ask_once(replicas, ask)
            self._shown = _readings(self._known)
        return replace(found, readiness=self._shown)

    def look_again(self, opened: Opened, seen: Actual, relied: Collection[str]) -> Mapping[str, Readiness]:
        """Of these replicas alone, before a plan that rests on them is carried out: asked again by who looks
        once. A loop plans what it carries out at once, from what it has just read."""
        if self._prober is not None:
            return self._shown
        replicas = self._find(seen, opened.desired())
        wanted = {name: replicas[name] for name in relied if name in replicas}
        known = self._ask_once(wanted, _asking(opened))
        self._known |= known
        return _readings(known)

    def ready(self, identity: str) -> Readiness | None:
        """What is known of one replica this very moment, without waiting, in any thread; None where nobody
        has asked it yet, and where nobody keeps asking."""
        return self._prober.ready(identity) if self._prober is not None else None

    def add_listener(self, listener: Listener) -> None:
        """`listener` hears, in another thread, of every replica that turns, and of those that are forgotten.
        Only where somebody keeps asking."""
        if self._prober is not None:
            self._prober.add_listener(listener)

    def rest(self) -> None:
        """Nobody is asked until the next look: another loop acts."""
        if self._prober is not None and self._replicas:
            self._replicas, self._seen = {}, None
            self._prober.forget()

    def halt(self) -> None:
        """Nobody is asked again and again any more."""
        if self._prober is not None:
            self._prober.halt()

    def _ask_once(self, replicas: Mapping[str, Replica], ask: Ask) -> dict[str, Known]:
        from reconciler.observe.readiness.one_round import ask_once

        return ask_once(replicas, ask, self._now(), self._known)

    def _find(self, found: Actual, desired: Desired) -> Mapping[str, Replica]:
        """The same object while it rests on the same ones."""
        from reconciler.observe.readiness.questions import find_replicas

        known = self._seen
        if known is None or known[0] is not found.existing or known[1] is not desired.services:
            self._replicas = find_replicas(desired, found)
            self._seen = found.existing, desired.services
        return self._replicas


def _asking(opened: Opened) -> Ask:
    from reconciler.observe.readiness.ask import ask

    return partial(ask, opened.provider, opened.cluster)


def _readings(known: Mapping[str, Known]) -> Mapping[str, Readiness]:
    found = ((name, each.standing.readiness) for name, each in known.items())
    return {name: each for name, each in found if each is not None}
