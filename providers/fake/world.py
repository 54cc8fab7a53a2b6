"""The machines of the fake provider: kernels, the clock they live by, and what goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from providers.abilities import GpuUsage, Usage
from providers.base import KernelSpec, KernelState, Observed, env_digest
from providers.fake.file_system import FakeFileSystem
from schemas.problems.errors.kernel import KernelNotFound, KernelRefused, NotRunning
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable

Operation = Literal["observe", "create", "update", "stop", "remove", "execute", "logs"]
FaultMoment = Literal["before", "after"]
Failure = Literal["error", "unavailable", "refused"]


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
    files: FakeFileSystem | None = None
    """None before somebody looks."""
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
        self.files_of: Callable[[FakeKernel], Mapping[str, bytes]] = lambda kernel: {}
        """What a kernel has in its working directory when somebody looks there first."""
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
            self.measure(kernel_id)
        self.loads[kernel_id] = load

    def measure(self, kernel_id: str) -> Usage:
        """What a kernel with a load has used."""
        kernel, load, now = self.kernels[kernel_id], self.loads[kernel_id], self.clock.now()
        at, cpu, network = kernel.used or (min(kernel.ready, now), 0.0, 0.0)
        kernel.used = (now, cpu + load.cores * (now - at), network + load.network * (now - at))
        gpus = {each: GpuUsage(load.gpu, None) for each in kernel.spec.devices}
        at_time = datetime.fromtimestamp(now, UTC)
        received = int(kernel.used[2])
        return Usage(kernel_id, at_time, kernel.used[1], network_in=received, network_out=0, gpus=gpus)

    def files(self, kernel_id: str) -> FakeFileSystem:
        """Of a kernel that runs. Raises KernelNotFound, NotRunning."""
        kernel = self.settle(kernel_id)
        if kernel.ended is not None:
            raise NotRunning(provider="fake", kernel=kernel_id)
        if kernel.files is None:
            kernel.files = FakeFileSystem(self.files_of(kernel), self.clock.now)
        return kernel.files

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

    def reach(self, kernel_id: str) -> None:
        """The same for the node of a kernel, if it is there."""
        if kernel_id in self.kernels:
            self.check_reachable(self.kernels[kernel_id].spec.labels.node)

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
