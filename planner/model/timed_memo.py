"""Values by key that are made again and again of what mostly stays the same, where some of it is the time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from itertools import compress, filterfalse
from math import inf
from operator import is_not
from typing import Generic, NamedTuple, TypeVar

from planner.model.plan_time import PlanTime

V = TypeVar("V")


class _Known(NamedTuple):
    """None of it is ever changed, only all of it replaced: threads see one moment."""

    around: tuple[object, ...]
    asked_at: float
    inputs: Sequence[Mapping[str, object]]
    values: Mapping[str, object]
    until: Mapping[str, float]
    """By key, the moments that values wait for."""
    passing: frozenset[str]
    """Whose values are made each time."""


class TimedMemo(Generic[V]):
    """The last value under each key, given again while the inputs under that key are the same objects, all
    else is equal, and no moment has come that it waits for. Threads may share it."""

    def __init__(self) -> None:
        self._known = _Known((), -inf, (), {}, {}, frozenset())

    def last(self, key: str) -> V | None:
        """The last value under a key, whether or not it still holds; for who makes the next one."""
        found: V | None = self._known.values.get(key)  # type: ignore[assignment]
        return found

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
        before = self._known
        known: Mapping[str, V] = before.values  # type: ignore[assignment]
        again = _outdated(before, keys, inputs, around, time.seconds)
        until, passing, made = dict(before.until), set[str](), dict[str, V]()
        for key in filter(again.__contains__, keys) if again else ():
            own = PlanTime(time.seconds)
            made[key] = value = make(key, own)
            until[key] = own.valid_until
            if not lasts(value):
                passing.add(key)
        if made or len(keys) != len(known):
            known = dict(zip(keys, map(known.get, keys), strict=True)) | made  # type: ignore[assignment]
        until = {key: moment for key, moment in until.items() if moment < inf and key in known}
        self._known = _Known(around, time.seconds, tuple(inputs), known, until, frozenset(passing))
        time.expires(min(until.values(), default=inf))
        return known


def _outdated(
    before: _Known,
    keys: Collection[str],
    inputs: Sequence[Mapping[str, object]],
    around: tuple[object, ...],
    now: float,
) -> set[str]:
    """Those whose values are to be made; some may be none of the keys. Of thousands of keys few have changed:
    no instruction of ours is spent on the others."""
    if around != before.around or now < before.asked_at or len(inputs) != len(before.inputs):
        return set(keys)
    again = {key for key, until in before.until.items() if until <= now}
    again |= before.passing
    for given, known in zip(inputs, before.inputs, strict=True):
        if given is not known:
            again.update(compress(keys, map(is_not, map(given.get, keys), map(known.get, keys))))
    again.update(filterfalse(before.values.__contains__, keys))
    return again
