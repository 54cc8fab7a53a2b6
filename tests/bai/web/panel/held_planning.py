"""Servers that take as long to plan as a test wants."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import pytest
from fastapi import FastAPI

from bai.web.panel.plans import planning_queue
from bai.web.panel.plans.planning_queue import PlanningQueue
from tests.waiting import until


class HeldPlanning:
    """Of a server: what it plans beside its answers is made once `free` is set; `made` counts it. `wrong`:
    what it ends with."""

    app: FastAPI

    def hold_calls(self, patch: pytest.MonkeyPatch, module: ModuleType, name: str) -> None:
        """From now on. `name`: of the function of `module` that plans."""
        self.free, self.made = threading.Event(), 0
        self.wrong: Exception | None = None
        make = getattr(module, name)

        def held(*args: Any, **more: Any) -> Any:
            self.made += 1
            self.free.wait()
            if self.wrong is not None:
                raise self.wrong
            return make(*args, **more)

        patch.setattr(module, name, held)
        patch.setattr(planning_queue, "KEPT", 600.0)  # However long it takes to ask for it again.
        self.planning.patience = 0.0

    @property
    def planning(self) -> PlanningQueue:
        found: PlanningQueue = self.app.state.planning
        return found

    def let_go(self) -> None:
        self.free.set()
        until(lambda: self.planning._workers == 0, "nothing is planned any more")
