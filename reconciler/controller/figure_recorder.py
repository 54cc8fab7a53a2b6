"""The figures of passes, kept in the store over time: by who leads, once a minute at most.

A loop that makes a pass every half minute writes one small transaction for two of them; between, it is asked
for the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.values.figures.pass_figures import pass_figures
from reconciler.values.figures.recorded import MINUTE, figure_rows
from schemas.problems.errors.store import StoreError

if TYPE_CHECKING:
    from reconciler.controller.cycle import ReconcileCycle
    from reconciler.controller.loop import Loop


class FigureRecorder:
    """`record` gets the cycles of one loop, in its thread."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._minute = -1

    def record(self, done: ReconcileCycle) -> None:
        """Never raises: a store that cannot be written is the loop's to tell."""
        minute = int(done.ended // MINUTE)
        if minute == self._minute or done.by or done.plan is None or done.actual is None:
            return
        if not self._loop.leads():
            return
        rows = figure_rows(pass_figures(done.plan, done.actual, done.ended), done.ended)
        try:
            self._loop.workspace.store.save_figures(done.cluster, rows)
        except StoreError:
            return
        self._minute = minute
