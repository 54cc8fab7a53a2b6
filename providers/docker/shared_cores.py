"""The cores of one node that nobody has alone: what kernels with a share of CPU may use.

A kernel that gets cores of its own takes them from all sharers before it starts, and gives them back when it
is removed. Who has what is known from the last look at the engine, and from what was begun since.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from providers.base import KernelSpec, Observed
from providers.docker.engine.engine import Engine
from providers.docker.engine.http import EngineRefusal, quote_segment
from schemas.hardware.cpuset import format_cpus, parse_cpus
from schemas.problems.errors.provider import ProviderError

LIVE = frozenset({"creating", "running", "stopping"})
ONLINE = "/sys/devices/system/cpu/online"
Cpus = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CoreHolder:
    """A live kernel: the cores that it has alone, or those that it shares with others (none: not bound)."""

    alone: Cpus = ()
    bound: Cpus = ()


class SharedCores:
    """Of one engine's node. `observe` looks at it and has `update` called. May be used by several threads."""

    def __init__(self, engine: Engine, observe: Callable[[], object]) -> None:
        self._engine = engine
        self._observe = observe
        self._lock = threading.RLock()
        self._holders: dict[str, CoreHolder] | None = None
        self._pending: set[str] = set()
        self._changes = 0
        self._all: Cpus = ()

    @property
    def changes(self) -> int:
        """How often something was begun here, or given back."""
        return self._changes

    def update(self, kernels: Iterable[Observed], changes: int) -> None:
        """What was seen just now, by a look before which there were so many `changes`: one that took long may
        know less than what is known. Kernels that are being made are kept as they were begun."""
        with self._lock:
            if self._holders is not None and changes != self._changes:
                return
            coming = {name: held for name, held in (self._holders or {}).items() if name in self._pending}
            seen = {kernel.id: self._parse_holder(kernel) for kernel in kernels if kernel.state in LIVE}
            self._holders = {**seen, **coming}

    @contextlib.contextmanager
    def reserve(self, spec: KernelSpec) -> Iterator[Cpus]:
        """The cores that this kernel is to be bound to (none: not bound), while it is made or changed; nobody
        else uses those that it has alone. When that fails, they are as before. Raises EngineRefusal,
        OSError."""
        with self._lock:
            before = self._current_holders().get(spec.id)
            self._pending.add(spec.id)
            self._changes += 1
        try:
            yield self._take(spec)
        except BaseException:
            with self._lock:
                self._pending.discard(spec.id)
                self._changes += 1
                self._current_holders().pop(spec.id, None)
                if before is not None:
                    self._current_holders()[spec.id] = before
            raise
        with self._lock:
            self._pending.discard(spec.id)
            self._changes += 1
            self._share_out()  # Somebody may have taken cores while it was made.

    def release(self, kernel: str) -> None:
        """It is gone. What cannot be told to the others now is told at the next change."""
        with self._lock:
            held = self._current_holders().pop(kernel, None)
            self._changes += 1
            if held is not None and held.alone:
                with contextlib.suppress(OSError, EngineRefusal, ProviderError):
                    self._share_out()

    def all_cores(self) -> Cpus:
        """All cores that are online."""
        if not self._all:
            self._all = tuple(range(self._engine.facts.cpus))
            if self._engine.has_machine:
                with contextlib.suppress(OSError, ValueError, ProviderError):
                    self._all = parse_cpus(self._engine.machine.get(ONLINE).decode().strip())
        return self._all

    def _take(self, spec: KernelSpec) -> Cpus:
        with self._lock:
            held = CoreHolder(alone=spec.cpus) if spec.cpus else CoreHolder(bound=self._shared_cores(spec.id))
            self._current_holders()[spec.id] = held
            if spec.cpus:
                self._share_out()
            return held.alone or held.bound

    def _current_holders(self) -> dict[str, CoreHolder]:
        if self._holders is None:
            self._observe()
        return self._holders if self._holders is not None else {}

    def _shared_cores(self, but: str = "") -> Cpus:
        """None when nobody (`but` this one) has cores alone, or everything is somebody's."""
        alone = {cpu for name, held in self._current_holders().items() if name != but for cpu in held.alone}
        return tuple(cpu for cpu in self.all_cores() if cpu not in alone) if alone else ()

    def _share_out(self) -> None:
        """Bind again whoever shares and is bound to others than are left."""
        left = self._shared_cores()
        for kernel, held in list(self._current_holders().items()):
            if not held.alone and held.bound != left and kernel not in self._pending:
                self._bind(kernel, left or self.all_cores())
                self._current_holders()[kernel] = CoreHolder(bound=left)

    def _bind(self, kernel: str, cpus: Cpus) -> None:
        """One that has ended just now is nobody's trouble."""
        with contextlib.suppress(EngineRefusal):
            body = {"CpusetCpus": format_cpus(cpus)}
            self._engine.call("POST", f"/containers/{quote_segment(kernel)}/update", body=body, timeout=60)

    def _parse_holder(self, kernel: Observed) -> CoreHolder:
        """By its placement, where it has one: a sharer is bound, too, once cores were taken."""
        alone = bool(kernel.cpus)
        if alone and kernel.labels.placement:
            with contextlib.suppress(ValueError, AttributeError, RecursionError):
                alone = bool(json.loads(kernel.labels.placement).get("cpus"))
        if alone:
            return CoreHolder(alone=kernel.cpus)
        return CoreHolder(bound=() if kernel.cpus and kernel.cpus == self.all_cores() else kernel.cpus)
