"""Creations in a process that is killed in their midst, at moments that are counted and not timed: calls of
Python and C functions, of which a whole creation has so many.

The process that the tests start opens the provider once, so that everything is imported; then it forks for
each creation. A killed one leaves what a killed bai leaves, and the tests look at that.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from providers.base import KernelSpec, Provider

KILLS = 8
"""Moments spread over a creation; one more is that of the fence."""
_CHILD = "from providers.conformance.killed_create import serve; serve()"
_WHOLE, _AT_FENCE = -1, -2
"""In place of a number of calls: to the end, and as far as the fence."""

Open = Callable[[], Provider]


def create_and_be_killed(open_provider: Open, specs: Sequence[KernelSpec]) -> Iterator[KernelSpec]:
    """Gives each spec but the first two, after its creator was killed. Raises AssertionError where a creation
    fails that nobody kills."""
    first, measured, *rest = specs
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as child:
        try:
            _tell(child, (open_provider, first))
            calls = _ask(child, (measured, _WHOLE))
            for number, spec in enumerate(rest):
                _ask(child, (spec, calls * number // len(rest) if number else _AT_FENCE))
                yield spec
        finally:
            child.kill()


def _tell(child: subprocess.Popen[bytes], message: object) -> None:
    assert child.stdin is not None
    pickle.dump(message, child.stdin)
    child.stdin.flush()


def _ask(child: subprocess.Popen[bytes], message: object) -> int:
    assert child.stdout is not None
    _tell(child, message)
    answer = child.stdout.readline()
    assert answer, "a creation that nobody kills has failed: what is wrong stands above"
    return int(answer)


def serve() -> None:
    """The process that is started: a creation for each order, and how many calls it took as the answer."""
    open_provider, first = pickle.load(sys.stdin.buffer)
    with contextlib.closing(open_provider()) as provider:
        provider.create(first)
    while True:
        spec, moment = pickle.load(sys.stdin.buffer)
        reading, writing = os.pipe()
        if (creator := os.fork()) == 0:
            _create(open_provider(), spec, moment, writing)
        os.close(writing)
        with open(reading, "rb") as told:
            calls = told.read() or b"0"
        _, status = os.waitpid(creator, 0)
        if status and not os.WIFSIGNALED(status):
            raise SystemExit(1)
        print(int(calls), flush=True)


def _create(provider: Provider, spec: KernelSpec, moment: int, told: int) -> None:
    """In a process of its own, which ends here."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == moment:
            _die()

    try:
        sys.setprofile(count)
        provider.create(spec, _die) if moment == _AT_FENCE else provider.create(spec)
        sys.setprofile(None)
        os.write(told, str(calls).encode())
        os._exit(0)
    except BaseException:
        sys.setprofile(None)
        traceback.print_exc()
        os._exit(1)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
