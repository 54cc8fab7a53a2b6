"""A handle on the world of the fake provider."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from providers.abilities import Usage
from providers.base import (
    Capabilities,
    Fence,
    KernelSpec,
    KernelState,
    Limit,
    Observation,
    Observed,
    unfenced,
)
from providers.fake.files import FakeFiles
from providers.fake.world import FakeKernel, World
from providers.machines.terminals.echo_shell import EchoCommands
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.kernel import NotRunning

IN_PLACE = frozenset({"cpus", "memory_nodes", "memory", "pids", "scratch", "labels"})


class FakeProvider(FakeFiles, EchoCommands):
    """A `Provider` on a `World`. Any number of handles may share one world, from any thread."""

    def __init__(
        self,
        world: World | None = None,
        *,
        limits: frozenset[Limit] = frozenset(Limit),
        limits_missing: Mapping[Limit, str] | None = None,
        in_place: frozenset[str] = IN_PLACE,
        timeouts: bool = False,
    ) -> None:
        self.world = world or World()
        self._capabilities = Capabilities("fake", limits, limits_missing or {}, in_place, timeouts=timeouts)

    def capabilities(self) -> Capabilities:
        return self._capabilities

    def close(self) -> None:
        """There are no connections; the world goes on."""

    def observe(self) -> Observation:
        world = self.world
        with world.lock:
            world.calls.append(("observe", ""))
            world.boundary("observe", "", "before")
            there = world.kernels.keys() - world.hidden
            visible = (
                sorted(one for one in there if not world.is_unreachable(one)) if world.down else sorted(there)
            )
            seen = tuple(_observed(world, kernel_id) for kernel_id in visible)
            missing = tuple(sorted(world.hidden & world.kernels.keys()))
            unreachable = dict(world.down)
            world.boundary("observe", "", "after")
        errors = tuple(f"{kernel_id}: cannot be read" for kernel_id in missing)
        return Observation(seen, not missing, errors, world.unlabelled, unreachable=unreachable)

    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        world = self.world
        with world.lock:
            world.calls.append(("create", spec.id))
            world.boundary("create", spec.id, "before")
            world.check_reachable(spec.labels.node)
            if world.is_unreachable(spec.id):
                world.twins.append(spec.id)
            if spec.id not in world.kernels:
                now = world.clock.now()
                kept = replace(spec, secret_env={})
                world.kernels[spec.id] = FakeKernel(
                    kept, created=now, ready=now + world.slow_create, pid=10_000 + len(world.created)
                )
                try:
                    fence()
                except BaiError:
                    del world.kernels[spec.id]
                    raise
                world.created.append(spec.id)
            world.boundary("create", spec.id, "after")
            return _observed(world, spec.id)

    def usage(self) -> Iterator[Usage]:
        world = self.world
        with world.lock:
            live = [
                one for one in sorted(world.loads) if one in world.kernels and not world.is_unreachable(one)
            ]
            found = [world.measure(one) for one in live if world.settle(one).ended is None]
        yield from found

    def update(self, kernel_id: str, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        world = self.world
        with world.lock:
            world.calls.append(("update", kernel_id))
            world.boundary("update", kernel_id, "before")
            world.reach(kernel_id)
            fence()
            kernel = world.settle(kernel_id)
            changes = {name: getattr(spec, name) for name in self._capabilities.in_place}
            kernel.spec = replace(kernel.spec, **changes)
            world.boundary("update", kernel_id, "after")
            return _observed(world, kernel_id)

    def stop(self, kernel_id: str, *, grace: float, signal: str = "") -> Observed:
        world = self.world
        with world.lock:
            world.calls.append(("stop", kernel_id))
            world.boundary("stop", kernel_id, "before")
            world.reach(kernel_id)
            kernel = world.settle(kernel_id)
            if kernel.ended is None and kernel.gone is None:
                kernel.gone = world.clock.now() + min(world.slow_stop, grace)
                kernel.stop_signal = signal
            world.boundary("stop", kernel_id, "after")
            return _observed(world, kernel_id)

    def remove(self, kernel_id: str) -> None:
        world = self.world
        with world.lock:
            world.calls.append(("remove", kernel_id))
            world.boundary("remove", kernel_id, "before")
            world.reach(kernel_id)
            world.kernels.pop(kernel_id, None)
            world.boundary("remove", kernel_id, "after")

    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        world = self.world
        with world.lock:
            world.boundary("logs", kernel_id, "before")
            world.reach(kernel_id)
            lines = list(world.settle(kernel_id).log)
        yield from lines if tail is None else lines[max(0, len(lines) - tail) :]

    def _enter(self, kernel_id: str, argv: tuple[str, ...]) -> bool:
        world = self.world
        with world.lock:
            world.calls.append(("execute", kernel_id))
            world.boundary("execute", kernel_id, "before")
            world.reach(kernel_id)
            kernel = world.settle(kernel_id)
            if kernel.ended is not None:
                raise NotRunning(provider="fake", kernel=kernel_id)
            kernel.executed.append(argv)
            world.boundary("execute", kernel_id, "after")
            return kernel.spec.tty


def _state(world: World, kernel: FakeKernel) -> KernelState:
    if kernel.ended is not None:
        return kernel.ended[0]
    if kernel.gone is not None:
        return "stopping"
    begins: KernelState = "creating" if kernel.ready == math.inf else "starting"
    return "running" if kernel.ready <= world.clock.now() else begins


def _observed(world: World, kernel_id: str) -> Observed:
    """The same object as long as nothing happens to the kernel."""
    kernel = world.settle(kernel_id)
    spec, ended, state = kernel.spec, kernel.ended, _state(world, kernel)
    begun = kernel.ready <= world.clock.now()
    made_of = (spec, state, ended, kernel.created, kernel.ready, begun, kernel.pid)
    if kernel.seen is None or kernel.seen[0] != made_of:
        kernel.seen = made_of, Observed(
            id=spec.id, labels=replace(spec.labels), state=state,
            exit_code=ended[2] if ended else None, reason=ended[3] if ended else "",
            created=_time(kernel.created), started=_time(kernel.ready) if begun else None,
            finished=_time(ended[1]) if ended else None, pid=kernel.pid if ended is None else None,
            cpus=spec.cpus, memory_nodes=spec.memory_nodes, memory=spec.memory, pids=spec.pids,
            scratch=spec.scratch, env_digest=kernel.env_digest(),
        )  # fmt: skip
    return kernel.seen[1]


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
