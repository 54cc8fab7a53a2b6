"""Values by key that are made again and again of what mostly stays the same, where some of it is the time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from math import inf
from typing import Generic, TypeVar

from planner.model.plan_time import PlanTime

V = TypeVar("V")


class TimedMemo(Generic[V]):
    """The last value under each key, given again while the inputs under that key are the same objects, all
    else is equal, and no moment has come that it waits for. For one thread."""

    def __init__(self) -> None:
        self._around: tuple[object, ...] = ()
        self._asked_at = -inf
        self._inputs: Sequence[Mapping[str, object]] = ()
        self._values: dict[str, V] = {}
        self._until: dict[str, float] = {}
        self._passing: frozenset[str] = frozenset()

    def last(self, key: str) -> V | None:
        """The last value under a key, whether or not it still holds; for who makes the next one."""
        return self._values.get(key)

    def fork(self) -> TimedMemo[V]:
        """One more, for another thread, that begins with what this one knows."""
        return copy(self)

    def values(
        self,
        keys: Collection[str],
        inputs: Sequence[Mapping[str, object]],
        around: tuple[object, ...],
        time: PlanTime,
        make: Callable[[str, PlanTime], V],
        lasts: Callable[[V], bool] = lambda value: True,
    ) -> Mapping[str, V]:
        """What `make` gives for each key, in their order.

        `inputs`: what a value rests on that is a key's own; never changed afterwards, only replaced.
        `around`: what all of them rest on. `lasts`: whether a value rests on nothing else; others are made
        each time. What `make` asks of its time is asked of `time`.
        """
        known = self._values
        again = self._outdated(keys, inputs, around, time)
        until, passing, made = dict(self._until), set[str](), dict[str, V]()
        for key in [key for key in keys if key in again] if again else ():
            own = PlanTime(time.seconds)
            made[key] = value = make(key, own)
            until[key] = own.valid_until
            if not lasts(value):
                passing.add(key)
        if made or len(keys) != len(known):
            known = {key: made[key] if key in made else known[key] for key in keys}
        self._until = {key: moment for key, moment in until.items() if moment < inf and key in known}
        self._around, self._asked_at, self._inputs = around, time.seconds, tuple(inputs)
        self._values, self._passing = known, frozenset(passing)
        time.expires(min(self._until.values(), default=inf))
        return known

    def _outdated(
        self,
        keys: Collection[str],
        inputs: Sequence[Mapping[str, object]],
        around: tuple[object, ...],
        time: PlanTime,
    ) -> set[str]:
        """Those whose values are to be made; some may be none of the keys."""
        if around != self._around or time.seconds < self._asked_at or len(inputs) != len(self._inputs):
            return set(keys)
        again = {key for key, until in self._until.items() if until <= time.seconds}
        again |= self._passing
        for now, before in zip(inputs, self._inputs, strict=True):
            again.update([key for key in keys if now.get(key) is not before.get(key)])
        known = self._values
        again.update([key for key in keys if key not in known])
        return again
