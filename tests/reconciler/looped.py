"""A loop in virtual time: one pass after the other, and what it says."""

from __future__ import annotations

from providers.fake import World
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.workspace.workspace import Workspace


class Looped:
    """A loop over a workspace; time goes on in `once` alone."""

    def __init__(self, workspace: Workspace, world: World) -> None:
        self.workspace = workspace
        self.world = world
        self.lines: list[str] = []
        self.good = True
        self.loop = self.make()

    def make(self, *, observe_only: bool = False) -> Loop:
        options = LoopOptions("loop", 30, observe_only=observe_only)
        return Loop(self.workspace, options, log=self.lines.append)

    def once(self, seconds: float = 30) -> list[str]:
        """One pass after some time; what it says."""
        self.world.clock.sleep(seconds)
        before = len(self.lines)
        self.good = self.loop.once()
        return self.lines[before:]

    def close(self) -> None:
        self.loop.halt()
        self.loop.workspace.close()
