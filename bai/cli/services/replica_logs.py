"""What all replicas of a service write, side by side: each line with its replica's name."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential

from bai.cli.sessions.interleaved_output import WAITING, split_lines
from bai.render.humanize import clean
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.command import NoSuchResource
from schemas.problems.errors.server import NotOnServer

PAUSE = 2.0
"""Seconds between looks for replicas that have come."""
LONGEST_PAUSE = 30.0
"""The same at most while nobody answers."""


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """One container of one replica. `key`: of this container and no other, whatever it is called."""

    name: str
    key: str
    read: Callable[[bool], Iterator[bytes]]
    """Its output; given True where it has come since the first look: then all of it. Raises BaiError."""


class ReplicaSource(Protocol):
    """The replicas of one service."""

    def look(self) -> Sequence[ReplicaLog]:
        """Those that are there now, in their order. Raises BaiError, NoSuchResource and NotOnServer once the
        service is gone."""
        ...


def print_replicas(source: ReplicaSource, *, live: bool) -> None:
    """Until all have ended, one after the other; or `live`, as lines come, with those replicas that come,
    until the service is gone."""
    out, width = sys.stdout.buffer, 0
    for name, line in FollowedReplicas(source).lines() if live else each_in_turn(source):
        shown = clean(name)
        width = max(width, len(shown))
        out.write(shown.ljust(width).encode() + b" | " + line + b"\n")
        out.flush()


def each_in_turn(source: ReplicaSource) -> Iterator[tuple[str, bytes]]:
    """One that cannot be asked stands in no other's way. Raises what looking raises."""
    for each in source.look():
        try:
            for line in split_lines(each.read(False)):
                yield each.name, line
        except BaiError as error:
            _warn(f"{each.name}: {error.message}")


@dataclass(frozen=True, slots=True)
class _Failure:
    """Of one output; whether anything came of it before."""

    why: str
    began: bool


@dataclass
class FollowedReplicas:
    """Each output has a thread that reads it, and one more looks for replicas that come."""

    source: ReplicaSource
    pause: float = PAUSE
    _box: queue.Queue[tuple[str, bytes] | int | None] = field(default_factory=lambda: queue.Queue(WAITING))
    """Lines; how many outputs have begun (1) or ended (-1); None once nobody looks for more."""
    _known: set[str] = field(default_factory=set)
    """Keys of all that were ever read: an output that has ended is not read again."""
    _failed: dict[str, _Failure] = field(default_factory=dict)
    """By key, until the next look: of a replica that has gone, nothing is said."""
    _told: set[str] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """Name and line, in the order in which they come. Raises what the first look raises."""
        first = self.source.look()
        threading.Thread(target=self._watch, args=(first,), daemon=True).start()
        watching, outputs = True, 0
        try:
            while watching or outputs:
                item = self._box.get()
                if isinstance(item, tuple):
                    yield item
                elif item is None:
                    watching = False
                else:
                    outputs += item
        finally:
            self._stop.set()

    def _watch(self, first: Sequence[ReplicaLog]) -> None:
        """Until the service is gone; while nobody answers, what is read goes on."""
        again = Retrying(
            retry=retry_if_exception(_may_pass),
            wait=wait_exponential(multiplier=self.pause, max=LONGEST_PAUSE),
            sleep=self._sleep,
            before_sleep=_tell_once,
        )
        self._begin(first, came=False)
        try:
            while not self._stop.wait(self.pause):
                self._begin(again(self._look), came=True)
        except BaiError:
            pass  # It is gone.
        finally:
            self._put(None)

    def _look(self) -> Sequence[ReplicaLog]:
        return () if self._stop.is_set() else self.source.look()

    def _begin(self, found: Sequence[ReplicaLog], *, came: bool) -> None:
        for key in self._failed.keys() - {each.key for each in found}:
            del self._failed[key]
        for each in found:
            if (failure := self._failed.pop(each.key, None)) is not None:
                self._tell_failure(each, failure)
            if each.key not in self._known:
                self._known.add(each.key)
                self._put(1)
                threading.Thread(target=self._read, args=(each, came), daemon=True).start()

    def _tell_failure(self, each: ReplicaLog, failure: _Failure) -> None:
        """Once. What has given nothing is read again: a server lets only so many follow at a time."""
        if each.key not in self._told:
            self._told.add(each.key)
            _warn(f"{each.name}: {failure.why}")
        if not failure.began:
            self._known.discard(each.key)

    def _read(self, each: ReplicaLog, came: bool) -> None:
        began = False
        try:
            for line in split_lines(each.read(came)):
                began = True
                self._put((each.name, line))
        except BaiError as error:
            self._failed[each.key] = _Failure(error.message, began)
        finally:
            self._put(-1)

    def _put(self, item: tuple[str, bytes] | int | None) -> None:
        """Not where nobody takes it any more."""
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                return self._box.put(item, timeout=1.0)

    def _sleep(self, seconds: float) -> None:
        self._stop.wait(seconds)


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, BaiError) and not isinstance(error, NoSuchResource | NotOnServer)


def _tell_once(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    if state.attempt_number == 1 and isinstance(error, BaiError):
        _warn(f"replicas that come are not seen just now: {error.message}")


def _warn(text: str) -> None:
    print(f"warning: {clean(text)}", file=sys.stderr, flush=True)
