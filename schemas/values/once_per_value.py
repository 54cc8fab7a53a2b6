"""What follows from one value that does not change, worked out once and kept with the value itself."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, TypeVarTuple

V = TypeVar("V")
R = TypeVar("R")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")


def without_derived(copied: V, fields: Collection[str]) -> V:
    """A copy of a model's `__dict__`, as Pydantic's `model_copy` makes one before it changes fields, without
    what was worked out from the fields, here or by `cached_property`."""
    for name in copied.__dict__.keys() - set(fields):
        del copied.__dict__[name]
    return copied


def once_per_value(function: Callable[[V], R]) -> Callable[[V], R]:
    """The function of one value that has a `__dict__` and is never changed: a frozen dataclass without slots,
    or a model whose copies are made `without_derived`. Asked again for the same object, it gives what it
    gave. What is kept goes with the object, and is no part of it: neither compared nor copied by
    `dataclasses.replace`. Threads may share it: at worst it is worked out twice."""
    name = f"_once {function.__module__}.{function.__qualname__}"

    @wraps(function)
    def once(value: V) -> R:
        kept = value.__dict__
        try:
            found: R = kept[name]
        except KeyError:
            found = kept[name] = function(value)
        return found

    return once


def last_per_value(function: Callable[Concatenate[V, P], R]) -> Callable[Concatenate[V, P], R]:
    """The same for a function of more than one value: the last result is kept with the first, and given again
    for equal others; what is the same object is not compared."""
    name = f"_last {function.__module__}.{function.__qualname__}"

    @wraps(function)
    def last(value: V, /, *args: P.args, **kwargs: P.kwargs) -> R:
        kept = value.__dict__
        known: tuple[tuple[object, ...], dict[str, object], R] | None = kept.get(name)
        if known is None or known[0] != args or known[1] != kwargs:
            known = kept[name] = (args, kwargs, function(value, *args, **kwargs))
        return known[2]

    return last


def some_per_value(most: int) -> Callable[[Callable[[V, *Ts], R]], Callable[[V, *Ts], R]]:
    """The same, where one value is asked with the same few others again and again: so many results are kept
    with it, and then none. The others are found by their hashes."""

    def decorated(function: Callable[[V, *Ts], R]) -> Callable[[V, *Ts], R]:
        name = f"_some {function.__module__}.{function.__qualname__}"

        @wraps(function)
        def some(value: V, /, *args: *Ts) -> R:
            kept: dict[tuple[object, ...], R] | None = value.__dict__.get(name)
            if kept is None:
                kept = value.__dict__[name] = {}
            try:
                return kept[args]
            except KeyError:
                if len(kept) >= most:
                    kept.clear()
                found = kept[args] = function(value, *args)
                return found

        return some

    return decorated
