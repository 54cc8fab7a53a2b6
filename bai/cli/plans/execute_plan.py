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
    from reconciler.values.results import ApplyResult, Outcome
    from reconciler.workspace.workspace import Workspace


_OUTCOMES: dict[Outcome, str] = {
    "done": "done", "failed": "failed", "skipped": "skipped", "stopped": "not begun",
}  # fmt: skip


def execute_completely(
    settings: Settings,
    workspace: Workspace,
    plan: Plan,
    parallel: int,
    *,
    quiet: bool = False,
    destroys: bool = False,
) -> bool:
    """Apply and report; True when everything was done. Raises what `Workspace.apply` raises. `destroys`: it
    is `bai destroy`."""
    result = execute_plan(settings, workspace, plan, parallel, quiet=quiet, destroys=destroys)
    return result.ok and not result.interrupted


def execute_plan(
    settings: Settings,
    workspace: Workspace,
    plan: Plan,
    parallel: int,
    *,
    quiet: bool = False,
    destroys: bool = False,
) -> ApplyResult:
    """The same, with all that came of it."""
    stop = threading.Event()
    with open_progress(settings, plan, quiet=quiet) as progress, _stop_on_signal(stop, progress):
        result = workspace.apply(
            plan, holder=current_actor(), parallel=parallel, on_event=progress.on_event, stop=stop
        )
    if not quiet:
        for line in result_lines(plan, result, destroys=destroys):
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


def result_lines(plan: Plan, result: ApplyResult, *, destroys: bool = False) -> Iterator[str]:
    """What failed, what was left, the sum, and what comes next."""
    from bai.render.humanize import clean, duration

    for item in result.results:
        if item.outcome == "failed":
            yield f"failed: {clean(item.action)}: {clean(item.error)}"
        elif item.outcome == "skipped":
            because = f": it needs {clean(item.because)}" if item.because else ""
            yield f"skipped: {clean(item.action)}{because}"
        elif item.outcome == "stopped":
            yield f"not begun: {clean(item.action)}"
    parts = [
        f"{result.count(outcome)} {word}" for outcome, word in _OUTCOMES.items() if result.count(outcome)
    ]
    command, good = ("bai destroy", "Destroyed") if destroys else ("bai apply", "Applied")
    bad = "Interrupted" if result.interrupted else f"Not everything was {good.lower()}"
    verdict = good if result.ok and not result.interrupted else bad
    yield f"{verdict}: {', '.join(parts) or '0 done'} in {duration(result.finished - result.started)}."
    if result.interrupted or not result.ok:
        yield f"What was done stays done; `{command}` goes on with the rest."
    elif plan.waits:
        yield _next_start(len(plan.waits))


def _next_start(waiting: int) -> str:
    """Who starts the sessions that wait."""
    who, them = ("1 session waits", "it") if waiting == 1 else (f"{waiting} sessions wait", "them")
    starter = (
        f"a loop (`bai reconcile`, `bai serve`) or the next `bai apply` starts {them} once there is room"
    )
    return f"{who}: {starter}; `bai explain SESSION` says what is missing."
