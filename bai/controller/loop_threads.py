"""Loops in threads, one for each cluster, until somebody says stop."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bai.interrupts import stoppable
from bai.settings import Settings

if TYPE_CHECKING:
    from bai.controller.document_sources import Origin
    from reconciler.controller.cycle import Pass
    from reconciler.controller.loop import Loop

    Heard = Callable[[Pass], None]


@dataclass(frozen=True, slots=True)
class Manner:
    """How loops go: `interval` in seconds, `parallel` actions at a time, or nothing but observing; `lease`:
    seconds after which another replica goes on when this one is silent; `stuck_after`: seconds in which a
    loop at work must show life."""

    interval: float
    observe: bool = False
    parallel: int = 32
    lease: float = 15.0
    stuck_after: float = 900.0

    def loops(self, settings: Settings, origin: Origin | None, heard: Heard = lambda _: None) -> list[Loop]:
        """One for each cluster that is opened; `heard` gets all their passes. Raises BaiError when one
        cannot be opened."""
        from bai.actor import holder
        from bai.controller.document_sources import opened
        from reconciler.controller.loop import Loop

        found = list(opened(settings, origin))
        return [
            Loop(
                workspace, holder=holder(), interval=self.interval, documents=documents,
                observe_only=self.observe, parallel=self.parallel, on_pass=heard,
                tell=partial(say, workspace.cluster.name if len(found) > 1 else ""),
            )
            for workspace, documents in found
        ]  # fmt: skip


def run_loops(settings: Settings, origin: Origin | None, manner: Manner, *, once: bool) -> bool:
    """True when, with `once`, nothing was wrong. Raises BaiError when a cluster cannot be opened."""
    from bai.controller.dispatchers import heralds
    from bai.controller.leaders import elected
    from bai.controller.systemd import watched

    loops = manner.loops(settings, origin)
    try:
        with haltable(loops), _heard(loops, manner.stuck_after) as stuck:
            if once:
                with heralds(loops):
                    return all([loop.once() for loop in loops])
            with elected(loops, manner.lease), heralds(loops), watched(stuck):
                _together(loops)
            say("", "stopped")
            return True
    finally:
        for loop in loops:
            loop.workspace.close()


@contextlib.contextmanager
def _heard(loops: Sequence[Loop], stuck_after: float) -> Iterator[Callable[[], str]]:
    """What they are at goes to clocks and traces; gives what says whose loop is stuck."""
    from bai.tracing import traces_of
    from reconciler.controller.stages import Pulse, Several, hanging

    traces = traces_of(os.environ)
    pulses = {loop.workspace.cluster.name: Pulse() for loop in loops}
    for loop in loops:
        pulse = pulses[loop.workspace.cluster.name]
        loop.stages = Several([pulse, traces] if traces else [pulse])
    try:
        yield lambda: hanging(pulses, stuck_after)
    finally:
        if traces is not None:
            traces.close()


def _together(loops: Sequence[Loop]) -> None:
    """Run all until they are halted; one that breaks halts the others, and is told."""
    if len(loops) == 1:
        loops[0].run()
        return
    broken: list[BaseException] = []

    def run(loop: Loop) -> None:
        try:
            loop.run()
        except BaseException as error:
            broken.append(error)
            for each in loops:
                each.halt()

    threads = [threading.Thread(target=run, args=(loop,), name=loop.workspace.cluster.name) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        # Without a timeout, no signal would be heard while waiting.
        while thread.is_alive():
            thread.join(0.2)
    if broken:
        raise broken[0]


def say(cluster: str, line: str) -> None:
    """One line of a loop's, with the time, and the cluster where there are several."""
    from bai.render.humanize import clean

    where = f"{cluster}: " if cluster else ""
    print(f"{time.strftime('%H:%M:%S')} {where}{clean(line)}", flush=True)


def haltable(loops: Sequence[Loop]) -> AbstractContextManager[None]:
    """The first Ctrl-C (or SIGTERM) halts them; the second leaves at once."""

    def halt() -> None:
        for loop in loops:
            loop.halt()

    return stoppable(lambda: any(loop.halted for loop in loops), halt)
