"""Machines that are made up: what runs there uses something, writes logs, and ends as its job says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from providers.abilities import GpuUsage, Usage
from providers.base import Fence, KernelSpec, Observed, unfenced
from providers.fake import FakeProvider, World
from providers.health.values import NodeHealth

_ASK_AGAIN = 1.0
"""Seconds after which somebody who follows a log is looked after, also where nothing was written."""
_GPU_MEMORY = 80 * 2**30


class SimulatedProvider(FakeProvider):
    """`begun` is told of each kernel that is made, under the world's lock."""

    def __init__(self, world: World, begun: Callable[[KernelSpec], None]) -> None:
        super().__init__(world)
        self.sick: dict[str, NodeHealth] = {}
        """Nodes that something is wrong with."""
        self._begun = begun
        self._closed = False
        self.news = threading.Condition(world.lock)
        """That logs have grown."""

    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        with self.world.lock:
            known = spec.id in self.world.kernels
            made = super().create(spec, fence)
            if not known:
                self._begun(spec)
            return made

    def health(self, nodes: Collection[str]) -> Mapping[str, NodeHealth]:
        return {name: self.sick.get(name, NodeHealth(name)) for name in nodes}

    def usage(self) -> Iterator[Usage]:
        """With memory: half of it, and more where there is more to do."""
        for each in super().usage():
            spec = self.world.kernels[each.kernel].spec
            busy = {name: one.busy or 0 for name, one in each.gpus.items()}
            part = 0.3 + 0.006 * max(busy.values(), default=50)
            gpus = {name: GpuUsage(one, int(_GPU_MEMORY * part)) for name, one in busy.items()}
            limit = spec.memory or 0
            yield replace(each, memory=int(limit * part * 0.8), memory_limit=limit, gpus=gpus)

    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        with self.news:
            kernel = self.world.settle(kernel_id)
            known, said = len(kernel.log), list(super().logs(kernel_id, tail=tail))
        yield from said
        while follow and not self._closed:
            with self.news:
                if len(kernel.log) == known:
                    if self.world.settle(kernel_id).ended is not None:
                        return
                    self.news.wait(_ASK_AGAIN)
                fresh = kernel.log[known:]
            known += len(fresh)
            yield from fresh

    def end_logs(self) -> None:
        """Whoever follows one is let go."""
        with self.news:
            self._closed = True
            self.news.notify_all()
