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
from providers.docker.engine.http import Refusal, segment
from schemas.hardware.cpuset import format_cpus, parse_cpus
from schemas.problems.errors import ProviderError

LIVE = frozenset({"creating", "running", "stopping"})
ONLINE = "/sys/devices/system/cpu/online"
Cpus = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """A live kernel: the cores that it has alone, or those that it shares with others (none: not bound)."""

    alone: Cpus = ()
    bound: Cpus = ()


class Cores:
    """Of one engine's node. `look` observes it and has `see` called. May be used by several threads."""

    def __init__(self, engine: Engine, look: Callable[[], object]) -> None:
        self._engine = engine
        self._look = look
        self._lock = threading.RLock()
        self._holders: dict[str, Holder] | None = None
        self._coming: set[str] = set()
        self._all: Cpus = ()

    def see(self, kernels: Iterable[Observed]) -> None:
        """What was seen just now; kernels that are being made are kept as they were begun."""
        with self._lock:
            coming = {name: held for name, held in (self._holders or {}).items() if name in self._coming}
            seen = {kernel.id: self._holder(kernel) for kernel in kernels if kernel.state in LIVE}
            self._holders = {**seen, **coming}

    @contextlib.contextmanager
    def given(self, spec: KernelSpec) -> Iterator[Cpus]:
        """The cores that this kernel is to be bound to (none: not bound), while it is made or changed; nobody
        else uses those that it has alone. When that fails, they are as before. Raises Refusal, OSError."""
        with self._lock:
            before = self._held().get(spec.id)
            self._coming.add(spec.id)
        try:
            yield self._begun(spec)
        except BaseException:
            with self._lock:
                self._coming.discard(spec.id)
                self._held().pop(spec.id, None)
                if before is not None:
                    self._held()[spec.id] = before
            raise
        with self._lock:
            self._coming.discard(spec.id)
            self._share_out()  # Somebody may have taken cores while it was made.

    def free(self, kernel: str) -> None:
        """It is gone. What cannot be told to the others now is told at the next change."""
        with self._lock:
            held = self._held().pop(kernel, None)
            if held is not None and held.alone:
                with contextlib.suppress(OSError, Refusal, ProviderError):
                    self._share_out()

    def everybody(self) -> Cpus:
        """All cores that are online."""
        if not self._all:
            self._all = tuple(range(self._engine.facts.cpus))
            if self._engine.beside:
                with contextlib.suppress(OSError, ValueError, ProviderError):
                    self._all = parse_cpus(self._engine.machine.get(ONLINE).decode().strip())
        return self._all

    def _begun(self, spec: KernelSpec) -> Cpus:
        with self._lock:
            held = Holder(alone=spec.cpus) if spec.cpus else Holder(bound=self._left(spec.id))
            self._held()[spec.id] = held
            if spec.cpus:
                self._share_out()
            return held.alone or held.bound

    def _held(self) -> dict[str, Holder]:
        if self._holders is None:
            self._look()
        return self._holders if self._holders is not None else {}

    def _left(self, but: str = "") -> Cpus:
        """None when nobody (`but` this one) has cores alone, or everything is somebody's."""
        alone = {cpu for name, held in self._held().items() if name != but for cpu in held.alone}
        return tuple(cpu for cpu in self.everybody() if cpu not in alone) if alone else ()

    def _share_out(self) -> None:
        """Bind again whoever shares and is bound to others than are left."""
        left = self._left()
        for kernel, held in list(self._held().items()):
            if not held.alone and held.bound != left and kernel not in self._coming:
                self._bind(kernel, left or self.everybody())
                self._held()[kernel] = Holder(bound=left)

    def _bind(self, kernel: str, cpus: Cpus) -> None:
        """One that has ended just now is nobody's trouble."""
        with contextlib.suppress(Refusal):
            body = {"CpusetCpus": format_cpus(cpus)}
            self._engine.call("POST", f"/containers/{segment(kernel)}/update", body=body, timeout=60)

    def _holder(self, kernel: Observed) -> Holder:
        """By its placement, where it has one: a sharer is bound, too, once cores were taken."""
        alone = bool(kernel.cpus)
        if alone and kernel.labels.placement:
            with contextlib.suppress(ValueError, AttributeError, RecursionError):
                alone = bool(json.loads(kernel.labels.placement).get("cpus"))
        if alone:
            return Holder(alone=kernel.cpus)
        return Holder(bound=() if kernel.cpus and kernel.cpus == self.everybody() else kernel.cpus)
