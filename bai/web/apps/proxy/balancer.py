"""Which replica of a service gets the next connection, and how many each one has.

Of those that get a part of the requests, are ready and are not about to stop: first a generation, by the
weights; then the replica with the fewest open connections. One that could not be reached is passed over for a
moment, while there are others.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from providers.machines.base import Stream
from providers.machines.dialling import dialled
from providers.machines.relay import BROKEN, reason
from reconciler.observe.scaling.sources import Requests

SKIPPED = 3.0
"""Seconds for which one that could not be reached is passed over; then one connection tries it again."""
DIAL_LIMIT = 5.0
"""Seconds in which a replica has to take a connection."""
MOST_TRIES = 8
"""Replicas that one connection tries."""
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
_LOOK_AGAIN = 0.1
"""Seconds between two looks for a replica, for those that wait for one."""
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

    def requests(self, service: str) -> Requests:
        """What is asked of it just now."""
        with self._changed:
            asked, now = self._asked.get(service), self._clock()
            known = self._services.get(service)
            if asked is None:
                return Requests(0, 0.0)
            flying = asked.waiting + sum(self._open[each.place] for each in (known.replicas if known else ()))
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
            generation = self._next_generation(self._services[service], {each.generation for each in fit})
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
        with self._changed:
            return self._open[place]

    def drain(
        self, place: str, grace: float, patience: float, waits: Callable[[int], None], stop: threading.Event
    ) -> float:
        """Nothing new for it. Comes back when nothing is left, or it has had `grace` seconds since it was
        drained first, with 0; and after `patience` seconds, or soon after `stop` is set, with the seconds
        that it still has. `waits` hears how many connections there are, now and then."""
        begun = self._clock()
        told = begun - TOLD_EVERY
        with self._changed:
            self._away[place] = True
            end = self._drained_since.setdefault(place, begun) + grace
        try:
            while True:
                with self._changed:
                    left, now = self._open[place], self._clock()
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
            if self._open[place]:
                self._awaited[place] = tell
                return
        tell()

    def _candidates(self, service: str, tried: Collection[str]) -> list[Replica]:
        known = self._services.get(service)
        return [
            each
            for each in (known.replicas if known is not None else ())
            if each.weight > 0 and each.place not in self._away and each.place not in tried and each.ready()
        ]

    def _is_fit(self, place: str, now: float) -> bool:
        until = self._failed.get(place)
        return until is None or (now >= until and place not in self._tried_again)

    def _close(self, place: str) -> None:
        self._tried_again.discard(place)
        self._open[place] -= 1
        if self._open[place] <= 0:
            del self._open[place]
            if (tell := self._awaited.pop(place, None)) is not None:
                tell()
        self._changed.notify_all()

    @staticmethod
    def _next_generation(service: _Service, among: Collection[str]) -> str:
        """Each in turn, and in the long run as often as its weight says."""
        weights = dict.fromkeys(sorted(among), 0.0)
        for each in service.replicas:
            if each.weight > 0 and each.generation in weights:
                weights[each.generation] += each.weight
        owed = {name: service.owed.get(name, 0.0) + weight for name, weight in weights.items()}
        chosen = max(owed, key=lambda name: owed[name])
        owed[chosen] -= sum(weights.values())
        service.owed = owed
        return chosen


class ServiceWay:
    """The way of one connection to one port of a service: to a replica, and to the next one where that is not
    reached; where there is none, it waits for one, `hold` seconds at most, if not too many wait. `dial`: a
    place and its port; raises BaiError, OSError. `timed`: whether first bytes are an answer's."""

    def __init__(
        self, balancer: Balancer, service: str, port: int, dial: Callable[[str, int], Stream], *,
        hold: float = 0.0, limit: float = DIAL_LIMIT, timed: bool = True,
    ) -> None:  # fmt: skip
        self._balancer, self._service, self._port = balancer, service, port
        self._dial, self._hold, self._limit, self._timed = dial, hold, limit, timed
        self._began, self._place, self._refusal = 0.0, "", ""

    async def wait(self, gone: Callable[[], bool]) -> None:
        self._balancer.begin(self._service)
        try:
            if self._hold and not self._balancer.can_serve(self._service):
                await self._wait(gone)
        finally:
            self._began = self._balancer.found(self._service)

    async def _wait(self, gone: Callable[[], bool]) -> None:
        if not self._balancer.hold(self._service):
            self._refusal = "no replica is ready, and too many requests wait for one, or did in vain"
            return
        in_vain = False
        try:
            async with asyncio.timeout(self._hold):
                while not self._balancer.can_serve(self._service):
                    await asyncio.sleep(_LOOK_AGAIN)
                    if gone():
                        self._refusal = "who asked has gone while no replica was ready"
                        return
        except TimeoutError:
            in_vain = True
            self._refusal = f"no replica was ready within {self._hold:g} seconds"
        finally:
            self._balancer.release(self._service, in_vain=in_vain)

    async def connect(self) -> Stream:
        """Raises ConnectionError."""
        if self._refusal:
            raise ConnectionError(self._refusal)
        tried: dict[str, str] = {}
        while len(tried) < MOST_TRIES and (replica := self._balancer.choose(self._service, tried)):
            try:
                stream = await self._reach(replica)
            except BROKEN as error:
                tried[replica.place] = _why(error)
            else:
                self._place = replica.place
                return stream
        told = "; ".join(f"{place}: {why}" for place, why in tried.items())
        raise ConnectionError(told or "no replica is ready")

    def answered(self) -> None:
        if self._timed:
            self._balancer.answered(self._service, self._began)

    def over(self) -> None:
        self._balancer.over(self._place)

    async def _reach(self, replica: Replica) -> Stream:
        try:
            port = replica.listening(self._port)
            stream = await asyncio.wait_for(dialled(partial(self._dial, replica.place, port)), self._limit)
        except BROKEN:
            self._balancer.lost(replica.place)
            raise
        except BaseException:
            self._balancer.over(replica.place)
            raise
        self._balancer.reached(replica.place)
        return stream


def _project_of(service: str) -> str:
    """Of `cluster/Service/project/name`: the same project on another cluster is the same people's."""
    return service.split("/")[2]


def _why(error: BaseException) -> str:
    return "it takes no connection" if isinstance(error, TimeoutError) else reason(error)
