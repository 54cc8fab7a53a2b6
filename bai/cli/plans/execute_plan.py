"""Carrying out a plan with somebody watching: progress, Ctrl-C, and what became of each action."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

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
        _print_result(settings, result_lines(plan, result, destroys=destroys))
    return result


class ResultLine(NamedTuple):
    """One line of what came of it; `style` as `rich` has it."""

    text: str
    style: str = ""


def _print_result(settings: Settings, lines: Iterable[ResultLine]) -> None:
    from rich.text import Text

    from bai.cli.output import print_renderable

    for line in lines:
        print_renderable(settings, Text(line.text, line.style), wrap=False)


def _stop_on_signal(stop: threading.Event, progress: Progress) -> AbstractContextManager[None]:
    def begin() -> None:
        stop.set()
        progress.say("Stopping: what has begun is finished, nothing new is started. Again to leave at once.")

    def leave() -> None:
        progress.close()
        print(file=sys.stderr)

    return graceful_stop(stop.is_set, begin, leave)


def result_lines(plan: Plan, result: ApplyResult, *, destroys: bool = False) -> Iterator[ResultLine]:
    """What failed, what was left, the sum, and what comes next."""
    from bai.render.humanize import clean, duration

    for item in result.results:
        if item.outcome == "failed":
            yield ResultLine(f"failed: {clean(item.action)}: {clean(item.error)}", "red")
        elif item.outcome == "skipped":
            because = f": it needs {clean(item.because)}" if item.because else ""
            yield ResultLine(f"skipped: {clean(item.action)}{because}", "yellow")
        elif item.outcome == "stopped":
            yield ResultLine(f"not begun: {clean(item.action)}", "yellow")
    parts = [
        f"{result.count(outcome)} {word}" for outcome, word in _OUTCOMES.items() if result.count(outcome)
    ]
    command, did = ("bai destroy", "Destroyed") if destroys else ("bai apply", "Applied")
    bad = "Interrupted" if result.interrupted else f"Not everything was {did.lower()}"
    good = result.ok and not result.interrupted
    sum_ = f"{', '.join(parts) or '0 done'} in {duration(result.finished - result.started)}."
    yield ResultLine(f"{did}: {sum_}", "bold") if good else ResultLine(f"{bad}: {sum_}", "bold red")
    if not good:
        yield ResultLine(f"What was done stays done; `{command}` goes on with the rest.")
    elif plan.waits:
        yield ResultLine(_next_start(len(plan.waits)))


def _next_start(waiting: int) -> str:
    """Who starts the sessions that wait."""
    who, them = ("1 session waits", "it") if waiting == 1 else (f"{waiting} sessions wait", "them")
    starter = (
        f"a loop (`bai reconcile`, `bai serve`) or the next `bai apply` starts {them} once there is room"
    )
    return f"{who}: {starter}; `bai explain SESSION` says what is missing."
