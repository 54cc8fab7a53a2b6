"""Which replica of a service gets the next connection, and how many each one has.

Of those that get a part of the requests, are ready and are not about to stop: first a generation, by the
weights; then the replica with the fewest open connections. One that could not be reached is passed over for a
moment, while there are others.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.observe.scaling.sources import Requests

SKIPPED = 3.0
"""Seconds for which one that could not be reached is passed over; then one connection tries it again."""
TOLD_EVERY = 5.0
"""Seconds between two words about what a replica still has to do before it stops."""
RATE_WINDOW = 10.0
"""Seconds by which requests in a second are counted, and by which their latencies are:"""
LATENCY_WINDOW = 60.0
MOST_REMEMBERED = 10_000
"""Connections of one service."""
MOST_HELD = 1024
"""Connections that wait for a replica where there is none, and of one project: half of what a server relays
is left for those that are served, and no project's sleeping services keep others' from being woken."""
HELD_OF_PROJECT = 256
GIVEN_UP = 1.0
"""Seconds after one has waited in vain in which no other begins to: the proxy asks again what only reads."""
_FORGOTTEN = 7200.0
"""Seconds after which nobody comes back to a replica that was drained: more than any may be."""
_TICK = 0.25
"""Most seconds without looking whether all of it ends."""


@dataclass(frozen=True, slots=True)
class Replica:
    """`place`: its main container, as it is dialled. `weight`: its part compared with others'; `listening`:
    where it really serves a port of its document; `ready`: whether it answers just now."""

    place: str
    generation: str
    weight: float
    listening: Callable[[int], int]
    ready: Callable[[], bool]
    ports: Mapping[int, int] = field(default_factory=dict)
    """Those that are really served elsewhere, for others to know."""


def place_of(cluster: str, name: str) -> str:
    """Of a kernel's id or a service, as the balancer knows it."""
    return f"{cluster}/{name}"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What other servers say of a cluster. `draining`: places at which nobody begins anything; `routes`: by
    service, replicas that may not be known here yet; `connections`: to places that are drained from here;
    `requests`: by service, what is asked there."""

    draining: Collection[str] = ()
    routes: Mapping[str, Sequence[Replica]] = field(default_factory=dict)
    connections: Mapping[str, int] = field(default_factory=dict)
    requests: Mapping[str, Sequence[Requests]] = field(default_factory=dict)


_NOWHERE = Elsewhere()


@dataclass(slots=True)
class _Service:
    replicas: Sequence[Replica]
    owed: dict[str, float] = field(default_factory=dict)
    """By generation, for turns that follow the weights exactly."""


@dataclass(slots=True)
class _Asked:
    """Of one service: connections that wait for a replica, when those of late began, and how long those took
    that were answered of late until the first byte, with when that was."""

    waiting: int = 0
    began: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_REMEMBERED))
    answered: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=MOST_REMEMBERED))


class Balancer:
    """May be used from several threads. Services and places begin with their cluster's name and a `/`;
    `clock`: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._services: dict[str, _Service] = {}
        self._elsewhere: dict[str, Elsewhere] = {}
        self._changed = threading.Condition()
        self._open: Counter[str] = Counter()
        self._failed: dict[str, float] = {}
        """Place → until when it is passed over."""
        self._tried_again: set[str] = set()
        self._away: dict[str, bool] = {}
        """Place that gets nothing → whether somebody waits for its end just now."""
        self._drained_since: dict[str, float] = {}
        self._awaited: dict[str, Callable[[], None]] = {}
        """Place → who hears when it has no connections any more."""
        self._turns = itertools.count(1)
        self._last: dict[str, int] = {}
        self._asked: dict[str, _Asked] = {}
        self._held: Counter[str] = Counter()
        """Connections that wait, by project."""
        self._given_up: dict[str, float] = {}
        """Service → until when nobody waits for it."""

    def update(self, cluster: str, services: Mapping[str, Sequence[Replica]]) -> None:
        """All services of a cluster as they are from now on. Who is waited for still gets nothing."""
        prefix = f"{cluster}/"
        with self._changed:
            before = {name: each for name, each in self._services.items() if name.startswith(prefix)}
            for name in before:
                del self._services[name]
                if name not in services and name in self._asked and not self._asked[name].waiting:
                    del self._asked[name]
                    self._given_up.pop(name, None)
            for name, replicas in services.items():
                known = before.get(name)
                self._services[name] = _Service(replicas, known.owed if known is not None else {})
            places = {each.place for replicas in services.values() for each in replicas}
            for place in [each for each in self._away if each.startswith(prefix)]:
                if not self._away[place]:
                    del self._away[place]
            old = self._clock() - _FORGOTTEN
            for place, since in list(self._drained_since.items()):
                if since < old or (place in places and not self._away.get(place)):
                    del self._drained_since[place]
            for kept in (self._failed, self._last):
                for place in [each for each in kept if each.startswith(prefix) and each not in places]:
                    del kept[place]

    def note_elsewhere(self, cluster: str, found: Elsewhere) -> None:
        """What other servers say, in place of what they have said before."""
        with self._changed:
            self._elsewhere[cluster] = found
            for place in [each for each in self._awaited if not self._left(each)]:
                self._awaited.pop(place)()
            self._changed.notify_all()

    def requests(self, service: str, *, here_alone: bool = False) -> Requests:
        """What is asked of it just now, at other servers, too."""
        found = [self._requests_here(service)]
        if not here_alone:
            found += self._of(service).requests.get(service, ())
        latencies = tuple(each for one in found for each in one.latencies)
        return Requests(sum(one.in_flight for one in found), sum(one.per_second for one in found), latencies)

    def _requests_here(self, service: str) -> Requests:
        with self._changed:
            asked, now = self._asked.get(service), self._clock()
            if asked is None:
                return Requests(0, 0.0)
            flying = asked.waiting + sum(self._open[each.place] for each in self._replicas(service))
            recent = sum(moment >= now - RATE_WINDOW for moment in asked.began)
            full = recent == MOST_REMEMBERED
            per_second = recent / (max(now - asked.began[0], 1e-3) if full else RATE_WINDOW)
            latencies = tuple(took for at, took in asked.answered if at >= now - LATENCY_WINDOW)
            return Requests(flying, per_second, latencies)

    def begin(self, service: str) -> None:
        """Somebody wants a connection, and waits for a replica until `found`."""
        with self._changed:
            asked = self._asked.setdefault(service, _Asked())
            asked.waiting += 1
            asked.began.append(self._clock())

    def found(self, service: str) -> float:
        """It waits no more; gives the moment."""
        with self._changed:
            self._asked[service].waiting -= 1
            return self._clock()

    def answered(self, service: str, began: float) -> None:
        """The first byte of an answer has come to what found a replica then: how long the first one takes to
        start is not its latency."""
        with self._changed:
            now = self._clock()
            self._asked.setdefault(service, _Asked()).answered.append((now, now - began))

    def hold(self, service: str) -> bool:
        """Whether one more connection may wait for a replica; until `release`."""
        project = _project_of(service)
        with self._changed:
            if self._given_up.get(service, 0.0) > self._clock():
                return False
            free = self._held.total() < MOST_HELD and self._held[project] < HELD_OF_PROJECT
            self._held[project] += free
            return free

    def release(self, service: str, *, in_vain: bool) -> None:
        """One waits no more; `in_vain`: its time is over."""
        project = _project_of(service)
        with self._changed:
            if in_vain:
                self._given_up[service] = self._clock() + GIVEN_UP
            self._held[project] -= 1
            if not self._held[project]:
                del self._held[project]

    def can_serve(self, service: str) -> bool:
        """Whether there is a replica to choose."""
        with self._changed:
            return bool(self._candidates(service, ()))

    def choose(self, service: str, tried: Collection[str]) -> Replica | None:
        """The replica that the next connection goes to, which counts as open from now on: until `lost` or
        `over`. `tried`: places that it does not go to. None where there is none."""
        with self._changed:
            them = self._candidates(service, tried)
            now = self._clock()
            fit = [each for each in them if self._is_fit(each.place, now)] or them
            if not fit:
                return None
            generation = self._next_generation(service, {each.generation for each in fit})
            equal = [each for each in fit if each.generation == generation]
            chosen = min(equal, key=lambda each: (self._open[each.place], self._last.get(each.place, 0)))
            self._open[chosen.place] += 1
            self._last[chosen.place] = next(self._turns)
            if chosen.place in self._failed:
                self._tried_again.add(chosen.place)
            return chosen

    def reached(self, place: str) -> None:
        """It has taken the connection."""
        with self._changed:
            self._failed.pop(place, None)
            self._tried_again.discard(place)

    def lost(self, place: str) -> None:
        """It could not be reached."""
        with self._changed:
            self._failed[place] = self._clock() + SKIPPED
            self._close(place)

    def over(self, place: str) -> None:
        """The connection has ended."""
        with self._changed:
            self._close(place)

    def connections(self, place: str) -> int:
        """At other servers, too, where it is drained from here."""
        with self._changed:
            return self._left(place)

    def connections_here(self, place: str) -> int:
        with self._changed:
            return self._open[place]

    def routes(self, service: str) -> list[Replica]:
        """Replicas that the next connection may go to."""
        with self._changed:
            return self._candidates(service, ())

    def names(self, cluster: str) -> list[str]:
        """Of the services of a cluster."""
        with self._changed:
            return [each for each in self._services if each.startswith(f"{cluster}/")]

    def unready(self, service: str) -> list[str]:
        """Places of replicas that would get requests if they answered."""
        with self._changed:
            known = self._services.get(service)
            return [each.place for each in (known.replicas if known else ()) if not each.ready()]

    def drain(
        self, place: str, grace: float, patience: float, waits: Callable[[int], None], stop: threading.Event
    ) -> float:
        """Nothing new for it. Comes back when nothing is left, or it has had `grace` seconds since it was
        drained first, with 0; and after `patience` seconds, or soon after `stop` is set, with the seconds
        that it still has. `waits` hears how many connections there are, now and then."""
        begun = self._clock()
        told = begun - (TOLD_EVERY if self.connections_here(place) else 0.0)
        with self._changed:
            self._away[place] = True
            end = self._drained_since.setdefault(place, begun) + grace
        try:
            while True:
                with self._changed:
                    left, now = self._left(place), self._clock()
                    if not left or now >= end:
                        self._drained_since.pop(place, None)
                        return 0.0
                    if stop.is_set() or now >= begun + patience:
                        return end - now
                    if now < told + TOLD_EVERY:
                        self._changed.wait(min(_TICK, end - now, begun + patience - now))
                        continue
                waits(left)
                told = now
        finally:
            with self._changed:
                self._away[place] = False

    def when_over(self, place: str, tell: Callable[[], None]) -> None:
        """Have `tell` called, once, when it has no connections any more."""
        with self._changed:
            if self._left(place):
                self._awaited[place] = tell
                return
        tell()

    def _candidates(self, service: str, tried: Collection[str]) -> list[Replica]:
        barred = self._of(service).draining
        return [
            each
            for each in self._replicas(service)
            if each.weight > 0
            and each.place not in self._away
            and each.place not in barred
            and each.place not in tried
            and each.ready()
        ]

    def _replicas(self, service: str) -> Sequence[Replica]:
        known, more = self._services.get(service), self._of(service).routes.get(service)
        own = known.replicas if known is not None else ()
        if not more:
            return own
        places = {each.place for each in own}
        return [*own, *(each for each in more if each.place not in places)]

    def _of(self, name: str) -> Elsewhere:
        """Of the cluster of a service or place."""
        return self._elsewhere.get(name.partition("/")[0], _NOWHERE)

    def _left(self, place: str) -> int:
        return self._open[place] + self._of(place).connections.get(place, 0)

    def _is_fit(self, place: str, now: float) -> bool:
        until = self._failed.get(place)
        return until is None or (now >= until and place not in self._tried_again)

    def _close(self, place: str) -> None:
        self._tried_again.discard(place)
        self._open[place] -= 1
        if self._open[place] <= 0:
            del self._open[place]
            if not self._left(place) and (tell := self._awaited.pop(place, None)) is not None:
                tell()
        self._changed.notify_all()

    def _next_generation(self, name: str, among: Collection[str]) -> str:
        """Each in turn, and in the long run as often as its weight says."""
        weights = dict.fromkeys(sorted(among), 0.0)
        for each in self._replicas(name):
            if each.weight > 0 and each.generation in weights:
                weights[each.generation] += each.weight
        service = self._services.setdefault(name, _Service(()))
        owed = {each: service.owed.get(each, 0.0) + weight for each, weight in weights.items()}
        chosen = max(owed, key=lambda each: owed[each])
        owed[chosen] -= sum(weights.values())
        service.owed = owed
        return chosen


def _project_of(service: str) -> str:
    """Of `cluster/Service/project/name`: the same project on another cluster is the same people's."""
    return service.split("/")[2]
