"""Live progress of an apply: a moving display on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from bai.render.humanize import clean, plural
from bai.settings import Settings
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

    from reconciler.values.plan import Plan
    from reconciler.values.results import ApplyEvent

_REDRAWN = 1 / 8
"""Seconds between two drawings of the bar."""
WORDS = {
    "create": ("creating", "created"),
    "update": ("updating", "updated"),
    "replace": ("replacing", "replaced"),
    "delete": ("deleting", "deleted"),
    "provision": ("provisioning", "provisioned"),
}


class Progress(Protocol):
    """Whoever shows how an apply goes."""

    def on_event(self, event: ApplyEvent) -> None: ...

    def say(self, line: str) -> None: ...

    def close(self) -> None: ...


@contextlib.contextmanager
def open_progress(settings: Settings, plan: Plan, *, quiet: bool = False) -> Iterator[Progress]:
    """The display that fits this output."""
    from bai.cli.output import console, is_terminal

    progress: Progress
    if quiet:
        progress = NoProgress()
    elif is_terminal(sys.stdout):
        progress = LiveProgress(console(settings), len(plan.changes), queue_places(plan))
    else:
        progress = LineProgress(queue_places(plan))
    try:
        yield progress
    finally:
        progress.close()


def event_line(event: ApplyEvent, queued: Mapping[str, str] | None = None) -> str:
    """One transition in words; empty for what need not be told. `queued`: sessions that are only put into
    their queue, with their place in it."""
    place = (queued or {}).get(event.action)
    name = clean(event.action)
    doing, did = WORDS.get(event.verb, (event.verb, event.verb))
    if event.kind == "retry":
        return f"{name}: {clean(event.step)} is tried again: {clean(event.error)}"
    if event.kind == "progress" and event.pull is not None:
        from bai.render.plan.images import pull_progress_line

        return f"{name}: {pull_progress_line(event.pull)}"
    if event.kind == "progress" and event.node is not None:
        from bai.render.plan.node_rollout import provision_event_line

        said = provision_event_line(event.node)
        return f"{name}: {said}" if said else ""
    if event.kind == "progress" and event.connections is not None:
        return f"{name}: draining: {plural(event.connections, 'connection')} left"
    if event.kind != "action":
        return ""
    if event.state == "started":
        return "" if place else f"{name}: {doing}"
    word = (place or did) if event.state == "done" else event.state
    error = f": {clean(event.error)}" if event.error else ""
    return f"{name}: {word}{error} ({event.done}/{event.total})"


def queue_places(plan: Plan) -> dict[str, str]:
    """Sessions that the plan puts into their queue and starts no more of → where each stands in it, in
    words."""
    from bai.render.plan.changes import change_kind

    waits = {wait.session: wait for wait in plan.waits}
    found = {}
    for action in plan.changes:
        if change_kind(action) == "queue":
            wait = waits.get(action.id)
            at = f", {wait.position} in line in group {clean(wait.group)}" if wait and wait.position else ""
            found[action.id] = f"queued{at}"
    return found


class NoProgress:
    """Says nothing but warnings."""

    def on_event(self, event: ApplyEvent) -> None:
        return None

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        return None


class LineProgress(NoProgress):
    """One line per finished action, and one per start of what takes time: sessions, kernels and images."""

    def __init__(self, queued: Mapping[str, str] | None = None) -> None:
        self._pulling: set[tuple[str, str]] = set()
        self._queued = queued

    def on_event(self, event: ApplyEvent) -> None:
        line = event_line(event, self._queued)
        if event.pull is not None:
            pulling = (event.pull.node, event.pull.image)
            if pulling in self._pulling and not event.pull.over:
                return
            self._pulling.add(pulling)
        if event.node is not None and event.node.what == "task":
            return
        record = ref_of(event.action).kind not in ("Session", "Kernel") and event.verb != "provision"
        if line and not (record and event.kind == "action" and event.state == "started"):
            print(line, flush=True)


class LiveProgress:
    """A bar and what goes on now, below a growing list of what is done."""

    def __init__(self, console: Console, total: int, queued: Mapping[str, str] | None = None) -> None:
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("  {task.description}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn()
        )
        self._task = self._bar.add_task("applying", total=total)
        self._doing: dict[str, str] = {}
        self._queued = queued
        self._lock = threading.Lock()
        self._live: Live = Live(
            console=console, get_renderable=self._render, auto_refresh=False, transient=True
        )
        self._live.start(refresh=True)
        self._terminal = threading.Lock()
        self._closed = threading.Event()
        self._redraws = threading.Thread(target=self._redraw, name="progress", daemon=True)
        self._redraws.start()

    def _redraw(self) -> None:
        """`Live`'s own thread would draw between what a line above the bar erases and what it writes."""
        while not self._closed.wait(_REDRAWN):
            with self._terminal:
                self._live.refresh()

    def _render(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        with self._lock:
            now = [Text(f"  * {line}", "cyan") for line in list(self._doing.values())[:8]]
        return Group(*now, self._bar)

    def on_event(self, event: ApplyEvent) -> None:
        line = event_line(event, self._queued)
        with self._lock:
            if event.node is not None:
                if line and event.action in self._doing:
                    self._doing[event.action] = line
            elif event.pull is not None:
                pulling = f"{event.action} {event.pull.node}"
                self._doing[pulling] = line
                if event.pull.over:
                    del self._doing[pulling]
            elif event.kind == "step" and event.step.startswith("pull") and event.state == "failed":
                self._doing.pop(f"{event.action} {event.kernel}", None)
            elif event.kind == "step" and event.action in self._doing and event.step:
                self._doing[event.action] = f"{clean(event.action)}: {clean(event.step)}"
            elif event.kind == "action" and event.state == "started":
                if line:
                    self._doing[event.action] = line
            elif event.kind == "action":
                self._doing.pop(event.action, None)
        if event.kind == "action" and event.state != "started":
            style = "green" if event.state == "done" else "red"
            self._print(line, style)
            self._bar.update(self._task, completed=event.done, total=event.total)
        elif event.kind == "retry":
            self._print(line, "yellow")

    def say(self, line: str) -> None:
        self._print(line, "yellow")

    def _print(self, line: str, style: str) -> None:
        from rich.padding import Padding
        from rich.text import Text

        with self._terminal:
            self._live.console.print(Padding(Text(line, style), (0, 0, 0, 2)))

    def close(self) -> None:
        self._closed.set()
        self._redraws.join()
        self._live.stop()
