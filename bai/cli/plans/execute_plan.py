"""Carrying out a plan with somebody watching: progress, Ctrl-C, and what became of each action."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from bai.actor import current_actor
from bai.cli.plans.progress import Progress, open_progress
from bai.interrupts import graceful_stop
from bai.settings import Settings

if TYPE_CHECKING:
    from reconciler.values.plan import Plan
    from reconciler.values.results import ApplyResult
    from reconciler.workspace.workspace import Workspace


def execute_completely(
    settings: Settings, workspace: Workspace, plan: Plan, parallel: int, *, quiet: bool = False
) -> bool:
    """Apply and report; True when everything was done. Raises what `Workspace.apply` raises."""
    result = execute_plan(settings, workspace, plan, parallel, quiet=quiet)
    return result.ok and not result.interrupted


def execute_plan(
    settings: Settings, workspace: Workspace, plan: Plan, parallel: int, *, quiet: bool = False
) -> ApplyResult:
    """The same, with all that came of it."""
    stop = threading.Event()
    with open_progress(settings, plan, quiet=quiet) as progress, _stop_on_signal(stop, progress):
        result = workspace.apply(
            plan, holder=current_actor(), parallel=parallel, on_event=progress.on_event, stop=stop
        )
    if not quiet:
        for line in result_lines(result):
            print(line)
    return result


def _stop_on_signal(stop: threading.Event, progress: Progress) -> AbstractContextManager[None]:
    def begin() -> None:
        stop.set()
        progress.say("Stopping: what has begun is finished, nothing new is started. Again to leave at once.")

    def leave() -> None:
        progress.close()
        print(file=sys.stderr)

    return graceful_stop(stop.is_set, begin, leave)


def result_lines(result: ApplyResult) -> Iterator[str]:
    """What failed, what was left, and the sum."""
    from bai.render.humanize import clean, duration

    for item in result.results:
        if item.outcome == "failed":
            yield f"failed: {clean(item.action)}: {clean(item.error)}"
        elif item.outcome == "skipped":
            because = f": it needs {clean(item.because)}" if item.because else ""
            yield f"skipped: {clean(item.action)}{because}"
        elif item.outcome == "stopped":
            yield f"stopped: {clean(item.action)}"
    parts = [f"{result.count('done')} done"]
    parts += [
        f"{result.count(word)} {word}" for word in ("failed", "skipped", "stopped") if result.count(word)
    ]
    verdict = (
        "Interrupted" if result.interrupted else "Applied" if result.ok else "Not everything was applied"
    )
    yield f"{verdict}: {', '.join(parts)} in {duration(result.finished - result.started)}."
