"""How much work something is, counted and not timed: in instructions of Python's interpreter."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(f"{ROOT / package}/" for package in ("bai", "planner", "providers", "reconciler", "schemas"))

Count = Callable[[Callable[[], object]], int]


class _Anything:
    """Has an `__init__` that takes whatever it is given, and says None: a tracing function then stays."""

    def __new__(cls) -> _Anything:
        return object.__new__(cls)


def instructions(do: Callable[[], object]) -> int:
    """Of our own code, and its returns, in this thread and those that it starts, while it does `do`, which
    takes some fifty times as long. Libraries have caches, and clear away when it occurs to the interpreter:
    theirs do not count, nor does what C code does."""
    # What Python calls at each instruction is all C code, which counts, and makes no instructions of its own.
    count = functools.lru_cache(maxsize=0)(_Anything().__init__)  # type: ignore[misc]

    def begin(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return count

    before = sys.gettrace()
    threading.settrace(begin)
    sys.settrace(begin)
    try:
        do()
    finally:
        sys.settrace(before)
        threading.settrace(None)  # type: ignore[arg-type]
    return count.cache_info().misses


def just_do(do: Callable[[], object]) -> int:
    """Nothing is counted: for what is only done the first time, such as imports."""
    do()
    return 0


def instructions_per_pair(work: Callable[[int], int], size: int) -> float:
    """Of the work on so many things, what grows with the square of their number: 0 where each thing is as
    much work as the one before, some where each is looked at for each other one. The things must be alike to
    the last: the work on one, twice and four times as many is compared."""
    work(size)  # What is only done the first time, such as imports, does not count.
    one, two, four = (work(size * times) for times in (1, 2, 4))
    return ((four - two) - 2 * (two - one)) / (6 * size**2)


def per_pair(work: Mapping[int, int]) -> float:
    """The same of the work by number of things, of three numbers that are equally far apart: so there is less
    to be done, as the smallest cluster may be nearly as large as the largest."""
    small, middle, large = sorted(work)
    assert large - middle == middle - small
    return (work[large] - 2 * work[middle] + work[small]) / (2 * (middle - small) ** 2)
