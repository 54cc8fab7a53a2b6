"""What the provider tells of this repository's kernels, as it happens."""

from __future__ import annotations

import json as plain
import queue
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bai.render.humanize import clean, iso_time
from providers.required_abilities import require_events
from schemas.problems.errors.base import BaiError

if TYPE_CHECKING:
    from bai.cli.sessions.own_kernels import OwnKernels
    from providers.abilities import KernelEvent
    from providers.base import Labels


class KernelEventListener:
    """Listens from now on; `lines` gives what came since it was last called. Raises NotAble."""

    def __init__(self, kernels: OwnKernels, session: str | None) -> None:
        self._provider = require_events(kernels.provider, kernels.cluster)
        self._kernels = kernels
        self._session = session
        self._labels: dict[str, Labels] = {}
        self._events: queue.Queue[KernelEvent | BaiError] = queue.Queue()
        self._ended = threading.Event()
        self._refresh_labels()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            for event in self._provider.events(self._ended.is_set):
                self._events.put(event)
        except BaiError as error:
            self._events.put(error)

    def stop(self) -> None:
        self._ended.set()

    def _refresh_labels(self) -> None:
        """Whose kernels are whose; those that are gone stay known."""
        self._labels |= self._kernels.labels()

    def lines(self, *, json: bool) -> Iterator[str]:
        """Raises what the provider raised."""
        while not self._events.empty():
            event = self._events.get()
            if isinstance(event, BaiError):
                raise event
            if event.kernel not in self._labels and event.what != "removed":
                self._refresh_labels()
            labels = self._labels.get(event.kernel)
            if labels is None or event.node not in ("", labels.node):
                continue  # of others, or told by a node that has no such kernel
            if self._session in (None, labels.resource):
                yield _event_json(event, labels) if json else _event_line(event, labels)


def _event_line(event: KernelEvent, labels: Labels) -> str:
    code = "" if event.exit_code is None else f" with {event.exit_code}"
    where = f"{clean(labels.resource)}/{clean(labels.kernel)}"
    return (
        f"{iso_time(event.at.timestamp())}  {where}  {event.what}{code} on {clean(event.node or labels.node)}"
    )


def _event_json(event: KernelEvent, labels: Labels) -> str:
    return plain.dumps(
        {
            "version": "bai.kernelevent/v1",
            "at": iso_time(event.at.timestamp()),
            "resource": labels.resource,
            "kernel": labels.kernel,
            "node": event.node or labels.node,
            "what": event.what,
            "exitCode": event.exit_code,
        }
    )
