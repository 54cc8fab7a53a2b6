"""What happens to kernels, as their engines tell it: one stream per node, joined, and begun again where it
was cut, from the moment of the last word."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from providers.abilities import KernelEvent
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, engine_errors
from providers.docker.engine.http import StreamedAnswer, split_lines
from providers.docker.fleet import Fleet
from providers.docker.labels import ID
from providers.docker.observe import parse_time
from providers.machines.connections import connection_limit
from providers.machines.poll import AT_ONCE
from schemas.problems.errors.provider import ProviderError
from schemas.values.naturals import parse_natural

KernelEventType = Literal["created", "started", "ended", "out-of-memory", "removed", "changed"]
_WHAT: Mapping[str, KernelEventType] = {
    "create": "created",
    "start": "started",
    "die": "ended",
    "oom": "out-of-memory",
    "destroy": "removed",
    "update": "changed",
    "rename": "changed",
    "pause": "changed",
    "unpause": "changed",
}
TICK = 0.2
"""Seconds without asking whether to stop."""
AHEAD = 1000
"""Most events that nobody has heard yet."""
OOM_AFTER_END = 2.0
"""Seconds after a container's end in which its engine may still hear why."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before an engine that does not answer is asked again."""


def stream_events(fleet: Fleet, stop: Callable[[], bool]) -> Iterator[KernelEvent]:
    """On all nodes from now on, until `stop()`."""
    told: queue.Queue[KernelEvent] = queue.Queue(AHEAD)
    listeners = [EventListener(engine, told) for engine in _heard(fleet.engines.values())]
    for listener in listeners:
        listener.start()
    try:
        while not stop():
            try:
                yield told.get(timeout=TICK)
            except queue.Empty:
                continue
    finally:
        for listener in listeners:
            listener.close()
        for listener in listeners:
            listener.join()


def _heard(engines: Iterable[Engine]) -> Iterator[Engine]:
    """Those that are listened to: listening keeps a node's connection in use, and some must be left for all
    else. What happens on the others is seen in the next look."""
    left = max(1, connection_limit() - AT_ONCE)
    for engine in engines:
        if not engine.local and engine.has_machine:
            if not left:
                continue
            left -= 1
        yield engine


class EventListener(threading.Thread):
    """Listens to one engine."""

    def __init__(self, engine: Engine, told: queue.Queue[KernelEvent]) -> None:
        super().__init__(name=f"events of {engine.node}", daemon=True)
        self._engine = engine
        self._events = told
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._pieces: StreamedAnswer | None = None
        self._last = 0
        """Nanoseconds of the engine's clock at the last event."""

    def run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.is_set():
            heard = time.monotonic()
            try:
                with engine_errors(self._engine.node):
                    self._listen()
            except ProviderError:
                pass
            pause = FIRST_PAUSE if time.monotonic() - heard > LONGEST_PAUSE else min(pause * 2, LONGEST_PAUSE)
            self._closed.wait(pause)

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            if self._pieces is not None:
                self._pieces.close()

    def _listen(self) -> None:
        query: dict[str, object] = {"filters": {"type": ["container"], "label": [ID], "event": sorted(_WHAT)}}
        query["since"] = self._since()
        pieces = self._engine.stream("GET", "/events", query=query)
        with self._lock:
            self._pieces = pieces
            if self._closed.is_set():
                pieces.close()
        try:
            for said in map(json.loads, split_lines(pieces)):
                if int(said.get("timeNano", 0)) > self._last:
                    self._last = int(said["timeNano"])
                    self._put(parse_event(said, self._engine.node))
        except (ValueError, AttributeError) as error:
            # A response that was closed in the midst of a read.
            raise ProviderError(provider=NAME, why=str(error)) from error

    def _put(self, event: KernelEvent) -> None:
        """Waits while nobody hears: an engine that tells without end is read no faster."""
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                return self._events.put(event, timeout=TICK)

    def _since(self) -> str:
        """The engine's own time at first, so that nothing is missed between asking and listening."""
        if not self._last:
            now = parse_time(str(self._engine.info()["SystemTime"]))
            self._last = int(now.timestamp() * 1e9) if now else time.time_ns()
        return f"{self._last // 10**9}.{self._last % 10**9:09d}"


def was_out_of_memory(engine: Engine, container: str, started: datetime, finished: datetime) -> bool:
    """Whether the engine tells that this run ended for want of memory, which it may hear of only after the
    end. Waits where that was just now. Raises EngineRefusal, OSError."""
    query: dict[str, object] = {
        "filters": {"type": ["container"], "container": [container], "event": ["oom"]},
        "since": f"{started.timestamp():.9f}",
        "until": f"{finished.timestamp() + OOM_AFTER_END:.9f}",
    }
    return any(line.strip() for line in engine.lines("/events", query=query))


def parse_event(said: Mapping[str, Any], node: str) -> KernelEvent:
    """From one event of an engine. Pure."""
    attributes = (said.get("Actor") or {}).get("Attributes") or {}
    what = _WHAT[str(said.get("Action"))]
    code = str(attributes.get("exitCode", ""))
    return KernelEvent(
        at=datetime.fromtimestamp(int(said["timeNano"]) / 1e9, UTC),
        kernel=str(attributes.get(ID, "")),
        node=node,
        what=what,
        exit_code=parse_natural(code) if what == "ended" else None,
    )
