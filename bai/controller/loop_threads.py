"""Loops in threads, one for each cluster, until somebody says stop."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bai.controller.log_line import log_line
from bai.interrupts import graceful_stop
from bai.settings import Settings

if TYPE_CHECKING:
    from bai.controller.document_sources import RemoteOrigin
    from reconciler.controller.loop import Loop
    from reconciler.controller.loop_options import LoopOptions
    from reconciler.observe.scaling.sources import Query


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What the command line says of a process's loops: how each goes; `lease`: seconds after which another
    replica goes on when this one is silent; `stuck_after`: seconds in which a loop at work must show life.
    `prometheus`: the URL of whom services ask that are scaled by a query; empty: nobody. `log` is given each
    line, after the cluster where there are several."""

    options: LoopOptions
    lease: float = 15.0
    stuck_after: float = 900.0
    prometheus: str = ""
    log: Callable[[str, str], None] = log_line

    def open_loops(self, settings: Settings, origin: RemoteOrigin | None) -> list[Loop]:
        """One for each cluster that is opened. Raises BaiError when one cannot be opened, CommandError for
        what is no URL of a Prometheus."""
        from bai.controller.document_sources import open_workspaces
        from reconciler.controller.figure_recorder import FigureRecorder
        from reconciler.controller.loop import Loop
        from reconciler.controller.pass_note import PassRecorder

        prometheus = self._prometheus()
        found = list(open_workspaces(settings, origin))
        loops = [
            Loop(
                workspace,
                self.options,
                log=partial(self.log, workspace.cluster.name if len(found) > 1 else ""),
                documents=documents,
            )
            for workspace, documents in found
        ]
        for loop in loops:
            loop.add_listener(PassRecorder(loop).record)
            loop.add_listener(FigureRecorder(loop).record)
            loop.workspace.scaling.query = prometheus
        return loops

    def _prometheus(self) -> Query | None:
        """Raises CommandError for what is no URL of a server."""
        if not self.prometheus:
            return None
        from providers.prometheus import Prometheus

        return Prometheus(self.prometheus, partial(self.log, "")).query


def run_loops(
    settings: Settings, origin: RemoteOrigin | None, loop_settings: LoopSettings, *, once: bool
) -> bool:
    """True when, with `once`, nothing was wrong. Raises BaiError when a cluster cannot be opened."""
    from bai.controller.dispatchers import running_dispatchers
    from bai.controller.leaders import leader_election
    from bai.controller.systemd import systemd_watchdog

    loops = loop_settings.open_loops(settings, origin)
    try:
        with halt_on_signal(loops), _watch_stages(loops, loop_settings.stuck_after) as stuck:
            if once:
                with running_dispatchers(loops):
                    return all([loop.once() for loop in loops])
            with (
                leader_election(loops, loop_settings.lease),
                running_dispatchers(loops),
                systemd_watchdog(stuck),
            ):
                _run_all(loops)
            log_line("", "stopped")
            return True
    finally:
        for loop in loops:
            loop.workspace.close()


@contextlib.contextmanager
def _watch_stages(loops: Sequence[Loop], stuck_after: float) -> Iterator[Callable[[], str]]:
    """What they are at goes to clocks and traces; gives what says whose loop is stuck."""
    from bai.tracing import tracer_from_environment
    from reconciler.controller.stages import LoopPulse, StageListeners, stuck_loops

    traces = tracer_from_environment(os.environ)
    pulses = {loop.workspace.cluster.name: LoopPulse() for loop in loops}
    for loop in loops:
        pulse = pulses[loop.workspace.cluster.name]
        loop.stages = StageListeners([pulse, traces] if traces else [pulse])
    try:
        yield lambda: stuck_loops(pulses, stuck_after)
    finally:
        if traces is not None:
            traces.close()


def _run_all(loops: Sequence[Loop]) -> None:
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


def halt_on_signal(
    loops: Sequence[Loop], also: Callable[[], None] = lambda: None
) -> AbstractContextManager[None]:
    """The first Ctrl-C (or SIGTERM) halts them, and does what else ends then; the second leaves at once."""

    def halt() -> None:
        for loop in loops:
            loop.halt()
        also()

    return graceful_stop(lambda: any(loop.halted for loop in loops), halt)
