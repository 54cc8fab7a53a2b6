"""A provider without machines: deterministic, in memory, with faults on demand and its own clock.

`World` is what survives (the "machines"); `FakeProvider` is one handle on it, as a process that may die would
hold. Nothing here is random and nothing sleeps: the world changes when its clock is advanced, or when a test
says so.

    world = World()
    provider = FakeProvider(world)
    world.inject(Fault("create", moment="after"))     # the kernel is made, the caller hears an error
    world.ends_after["a-main1-…"] = Ending(30.0, exit_code=0)
    world.clock.sleep(30)

For plugin authors: a provider that behaves like this one under the same faults is safe under the reconciler.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from providers.abilities import GpuUsage, Usage
from providers.base import (
    Capabilities,
    Fence,
    KernelSpec,
    KernelState,
    Limit,
    Observation,
    Observed,
    env_digest,
    unfenced,
)
from providers.machines.echo_shell import EchoCommands
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.kernel import KernelNotFound, KernelRefused, NotRunning
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable

Operation = Literal["observe", "create", "update", "stop", "remove", "execute", "logs"]
FaultMoment = Literal["before", "after"]
Failure = Literal["error", "unavailable", "refused"]

IN_PLACE = frozenset({"cpus", "memory_nodes", "memory", "pids", "scratch", "labels"})


class VirtualClock:
    """Seconds since the epoch that pass only when `sleep` is called."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += max(0.0, seconds)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong: the next `times` calls of `operation` fail, before or after their effect.
    `kernel` None means any kernel."""

    operation: Operation
    kernel: str | None = None
    moment: FaultMoment = "before"
    failure: Failure = "unavailable"
    times: int = 1
    why: str = "injected fault"


@dataclass(frozen=True, slots=True)
class ScheduledExit:
    """A kernel ends by itself, `seconds` after it started."""

    seconds: float
    exit_code: int = 0
    reason: str = "exit"


@dataclass(frozen=True, slots=True)
class SimulatedLoad:
    """What a kernel uses all the time: cores, bytes a second, percent of its GPU."""

    cores: float = 0.0
    network: float = 0.0
    gpu: int | None = None


@dataclass(slots=True)
class FakeKernel:
    """One kernel. In seconds since the epoch, `ready` (inf: half made) and `gone` end slow transitions."""

    spec: KernelSpec
    created: float
    ready: float
    gone: float | None = None
    """When a requested stop will be complete."""
    stop_signal: str = ""
    """The signal that it was asked to stop with, where it was not its own."""
    ended: tuple[KernelState, float, int | None, str] | None = None
    log: list[bytes] = field(default_factory=list)
    executed: list[tuple[str, ...]] = field(default_factory=list)
    pid: int = 0
    used: tuple[float, float, float] | None = None
    """Time, CPU seconds and bytes when it was measured last."""
    seen: tuple[tuple[object, ...], Observed] | None = None
    """How it was seen last, with all that this rests on."""
    _digested: tuple[Mapping[str, str], str] | None = None

    def env_digest(self) -> str:
        if self._digested is None or self._digested[0] is not self.spec.env:
            self._digested = (self.spec.env, env_digest(self.spec.env))
        return self._digested[1]


class World:
    """All kernels there are, the clock they live by, and the faults still to come.

    `slow_create` and `slow_stop` are seconds of clock time that a kernel stays `starting` and `stopping`.
    `hidden` kernels are missing from observations, which are then incomplete.
    `down`: node → why it cannot be reached; its kernels go on, unseen and untouched. `loads`: what kernels
    use (see `use`); one that is missing is not measured.
    `at(operation, kernel_id, moment)` is called at every effect boundary and may raise anything, for example
    a simulated kill.
    """

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.kernels: dict[str, FakeKernel] = {}
        self.hidden: set[str] = set()
        self.down: dict[str, str] = {}
        self.loads: dict[str, SimulatedLoad] = {}
        self.twins: list[str] = []
        """Ids that were to be made a second time while the first could not be reached: must stay empty."""
        self.unlabelled: tuple[str, ...] = ()
        self.ends_after: dict[str, ScheduledExit] = {}
        self.slow_create = 0.0
        self.slow_stop = 0.0
        self.calls: list[tuple[Operation, str]] = []
        self.created: list[str] = []
        """Every id really made, in order; an id twice without a removal between is a doubled kernel."""
        self.at: Callable[[Operation, str, FaultMoment], None] = lambda operation, kernel_id, moment: None
        self.lock = threading.RLock()
        self._faults: list[Fault] = []

    def inject(self, fault: Fault) -> None:
        self._faults.append(fault)

    def die(self, kernel_id: str, *, exit_code: int = 1, reason: str = "exit") -> None:
        """The kernel's main process ends now."""
        self.kernels[kernel_id].ended = ("exited", self.clock.now(), exit_code, reason)

    def lose(self, kernel_id: str, *, reason: str = "supervisor died") -> None:
        """The kernel is no longer watched: its end is not known."""
        self.kernels[kernel_id].ended = ("lost", self.clock.now(), None, reason)

    def vanish(self, kernel_id: str) -> None:
        """Somebody removed the kernel behind everyone's back."""
        self.kernels.pop(kernel_id, None)

    def use(self, kernel_id: str, load: SimulatedLoad) -> None:
        """From now on the kernel uses so much."""
        if kernel_id in self.loads:
            _used(self, kernel_id)
        self.loads[kernel_id] = load

    def crash(self, node: str) -> None:
        """The machine stops, and what runs on it."""
        for kernel_id, kernel in self.kernels.items():
            if kernel.spec.labels.node == node and self.settle(kernel_id).ended is None:
                self.lose(kernel_id, reason="the machine was restarted")

    def is_unreachable(self, kernel_id: str) -> bool:
        """Whether the kernel is there and out of reach."""
        kernel = self.kernels.get(kernel_id)
        return kernel is not None and kernel.spec.labels.node in self.down

    def check_reachable(self, node: str) -> None:
        """Raises ProviderUnavailable for a node that is down."""
        if node in self.down:
            raise ProviderUnavailable(provider="fake", why=f"{node}: {self.down[node]}")

    def boundary(self, operation: Operation, kernel_id: str, moment: FaultMoment) -> None:
        """Called by providers around each effect; raises the fault due here, if any."""
        self.at(operation, kernel_id, moment)
        for position, fault in enumerate(self._faults):
            if fault.operation == operation and fault.moment == moment and fault.kernel in (None, kernel_id):
                self._use(position, fault)
                raise _error(fault, kernel_id)

    def _use(self, position: int, fault: Fault) -> None:
        if fault.times > 1:
            self._faults[position] = replace(fault, times=fault.times - 1)
        else:
            del self._faults[position]

    def settle(self, kernel_id: str) -> FakeKernel:
        """Bring one kernel's state up to the clock. Raises KernelNotFound."""
        kernel = self.kernels.get(kernel_id)
        if kernel is None:
            raise KernelNotFound(provider="fake", kernel=kernel_id)
        if kernel.ended is None:
            kernel.ended = self._end(kernel)
        return kernel

    def _end(self, kernel: FakeKernel) -> tuple[KernelState, float, int | None, str] | None:
        now = self.clock.now()
        ending = self.ends_after.get(kernel.spec.id)
        own = kernel.ready + ending.seconds if ending else None
        if ending and own is not None and own <= min(now, kernel.gone if kernel.gone is not None else now):
            return ("exited", own, ending.exit_code, ending.reason)
        if kernel.gone is not None and kernel.gone <= now:
            return ("exited", kernel.gone, 143, "stopped")
        return None


def _error(fault: Fault, kernel_id: str) -> ProviderError:
    if fault.failure == "unavailable":
        return ProviderUnavailable(provider="fake", why=fault.why)
    if fault.failure == "refused":
        return KernelRefused(provider="fake", kernel=kernel_id, why=fault.why)
    return ProviderError(provider="fake", why=fault.why)


class FakeProvider(EchoCommands):
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
            found = [_used(world, one) for one in live if world.settle(one).ended is None]
        yield from found

    def _reach(self, kernel_id: str) -> None:
        if kernel_id in self.world.kernels:
            self.world.check_reachable(self.world.kernels[kernel_id].spec.labels.node)

    def update(self, kernel_id: str, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        world = self.world
        with world.lock:
            world.calls.append(("update", kernel_id))
            world.boundary("update", kernel_id, "before")
            self._reach(kernel_id)
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
            self._reach(kernel_id)
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
            self._reach(kernel_id)
            world.kernels.pop(kernel_id, None)
            world.boundary("remove", kernel_id, "after")

    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        world = self.world
        with world.lock:
            world.boundary("logs", kernel_id, "before")
            self._reach(kernel_id)
            lines = list(world.settle(kernel_id).log)
        yield from lines if tail is None else lines[max(0, len(lines) - tail) :]

    def _enter(self, kernel_id: str, argv: tuple[str, ...]) -> bool:
        world = self.world
        with world.lock:
            world.calls.append(("execute", kernel_id))
            world.boundary("execute", kernel_id, "before")
            self._reach(kernel_id)
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


def _used(world: World, kernel_id: str) -> Usage:
    kernel, load, now = world.kernels[kernel_id], world.loads[kernel_id], world.clock.now()
    at, cpu, network = kernel.used or (min(kernel.ready, now), 0.0, 0.0)
    kernel.used = (now, cpu + load.cores * (now - at), network + load.network * (now - at))
    gpus = {each: GpuUsage(load.gpu, None) for each in kernel.spec.devices}
    return Usage(
        kernel_id, _time(now), kernel.used[1], network_in=int(kernel.used[2]), network_out=0, gpus=gpus
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
