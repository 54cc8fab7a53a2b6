"""The process provider: kernels as native process trees of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from signal import SIGHUP, SIGKILL, SIGTERM
from subprocess import Popen
from typing import IO, TYPE_CHECKING, ParamSpec, TypeVar, cast

from providers.base import Capabilities, Fence, KernelSpec, Observation, Observed, unfenced
from providers.process import launch
from providers.process.abilities import Interaction
from providers.process.gpu_share import Sharing
from providers.process.host_capabilities import Machine, examine
from providers.process.linux import cgroup, cgroup_mounts, files, procfs
from providers.process.sandbox import bubblewrap as sandbox
from providers.process.supervision import binding, logfile, scratch, shared_cores
from providers.process.supervision import observe as watch
from providers.process.supervision.records import Record, Root
from schemas.problems import room
from schemas.problems.errors import (
    KernelNotFound,
    KernelRefused,
    ProviderError,
    ProviderUnavailable,
    StoreError,
)

if TYPE_CHECKING:
    from providers.process.interaction.execute import Entrance

IN_PLACE = frozenset({"cpus", "memory_nodes", "memory", "pids", "scratch", "labels"})
LOG_SIZE = 10 * 1024 * 1024
LOG_FILES = 3
TAKEN_ATTEMPTS = 5
STUBBORN = 30.0
"""Seconds beyond the grace before a supervisor that does not end is killed itself."""

P = ParamSpec("P")
R = TypeVar("R")


def _speaking(method: Callable[P, R]) -> Callable[P, R]:
    """What the operating system refuses becomes a ProviderError."""

    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except (OSError, ValueError) as error:
            if room.is_full(error):
                why = f"{error}: {room.told(cast(ProcessProvider, args[0]).root.path)}"
                raise ProviderError(provider="process", why=why, hint=room.HINT) from error
            raise ProviderError(provider="process", why=str(error)) from error

    wrapper.__doc__, wrapper.__name__ = method.__doc__, method.__name__
    return wrapper


def _unavailable(why: str) -> ProviderUnavailable:
    return ProviderUnavailable(provider="process", why=why)


class ProcessProvider(Interaction):
    """A `Provider` on this machine, with everything it keeps under `root`.

    `sandbox` and `cgroups` False do without even where they work; `log_size`: bytes of one part of a log;
    `hami`: where libvgpu.so is; `etc`: what else of the machine's /etc kernels see.
    """

    def __init__(
        self,
        root: Path,
        *,
        sandbox: bool = True,
        cgroups: bool = True,
        log_size: int = LOG_SIZE,
        log_files: int = LOG_FILES,
        hami: str = "",
        etc: Sequence[str] = (),
    ) -> None:
        self.root = Root(root)
        self._sharing = Sharing(self.root, hami=hami)
        self._wishes = (sandbox, cgroups)
        self._log = (log_size, log_files)
        self._etc = tuple(etc)

    @cached_property
    def machine(self) -> Machine:
        """What can be enforced here; found out once per provider."""
        return examine(
            self.base, str(self.root.path), want_sandbox=self._wishes[0], want_groups=self._wishes[1]
        )

    @property
    def base(self) -> str:
        """Name of this root's control group."""
        return f"bai-{self.root.key}"

    def capabilities(self) -> Capabilities:
        machine = self.machine
        cautions = sandbox.cautions() if machine.sandbox else ()
        return Capabilities(
            "process", machine.limits, dict(machine.missing), IN_PLACE, timeouts=True, cautions=cautions
        )

    def fractions(self, nodes: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """See `providers.abilities.Shares`; every node is this machine."""
        found = self._sharing.means()
        return dict.fromkeys(nodes, found)

    # reading

    @_speaking
    def observe(self) -> Observation:
        kernels: list[Observed] = []
        errors: list[str] = []
        unlabelled: list[str] = []
        for kernel_id in self.root.ids():
            try:
                seen = self._settled(kernel_id)
            except (OSError, ValueError, KernelRefused) as error:
                errors.append(f"{kernel_id}: {error}")
                unlabelled.append(kernel_id)
                continue
            if seen is not None:
                kernels.append(seen)
        unlabelled.extend(self._unrecorded())
        self._sharing.tend({kernel.id for kernel in kernels if kernel.state in ("creating", "running")})
        return Observation(tuple(kernels), not errors, tuple(errors), tuple(unlabelled))

    def _unrecorded(self) -> list[str]:
        """Groups that hold processes but have no record: somebody deleted our files under running kernels."""
        known = {*self.root.ids(), cgroup.KEEPERS}
        names = {name for group in self.machine.groups for name in cgroup_mounts.names(group["path"])}
        bases = list(self.machine.groups)
        strays = [name for name in sorted(names - known) if cgroup.members(cgroup.below(bases, name))]
        return [name for name in strays if not self.root.folder(name).exists()]

    def _settled(self, kernel_id: str) -> Observed | None:
        """The kernel; if its supervisor died, what was left of it has been cleaned up."""
        found = watch.look(self.root, kernel_id)
        if found is None or found[1].state != "lost" or found[0].state.get("phase") == "lost":
            return found and found[1]
        with self.root.locked(kernel_id):
            found = watch.look(self.root, kernel_id)
            if found is None or found[1].state != "lost":
                return found and found[1]
            return watch.observed(watch.bury(self.root, found[0]))

    def _record(self, kernel_id: str) -> Record:
        record = self.root.read(kernel_id)
        if record is None:
            raise KernelNotFound(provider="process", kernel=kernel_id)
        return record

    def _now(self, kernel_id: str) -> Observed:
        found = watch.look(self.root, kernel_id)
        if found is None:
            raise KernelNotFound(provider="process", kernel=kernel_id)
        return found[1]

    # making

    @_speaking
    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        self.root.ensure()
        with self.root.locked(spec.id):
            record = self.root.read(spec.id)
            if record is not None and (record.begun or record.alive):
                record = self._awaited(spec.id)
                if record.begun or record.alive:
                    return self._now(spec.id)
                # The supervisor that a killed creator left has died before it began.
            launch.check(spec)
            with self._supervisor(spec) as keeper:
                record = self._intend(record, spec)
                try:
                    fence()
                    self._launch(record, spec, keeper)
                except (KernelRefused, StoreError):
                    self._wait(record, STUBBORN)
                    self._discard(self.root.read(spec.id) or record)
                    self._leave()
                    raise
            self._awaited(spec.id)
            return self._now(spec.id)

    def _intend(self, record: Record | None, spec: KernelSpec) -> Record:
        if record is not None:
            return self.root.rewrite(record, spec, again=True)
        self.root.sweep(spec.id)
        return self.root.stage(spec, time.time())

    def _supervisor(self, spec: KernelSpec, attempt: str = "") -> AbstractContextManager[Popen[bytes]]:
        return launch.waiting(spec.id, f"{self.base}-{spec.id}{attempt}", scope=self.machine.scope)

    def _launch(self, record: Record, spec: KernelSpec, keeper: Popen[bytes]) -> None:
        shared = shared_cores.shared(str(self.root.path))
        if spec.cpus:
            self._share_out()
        limits = self._sharing.give(spec, sandboxed=self.machine.sandbox)
        order = launch.order(self.root, record, spec, self.machine, self._log, limits, self._etc)
        answer = launch.start(order, keeper)
        for attempt in range(1, TAKEN_ATTEMPTS):
            if answer != "taken" or self._awaited(spec.id).begun:
                break
            # A supervisor of an attempt that died held the lock just then, and found itself not wanted.
            with self._supervisor(spec, f"-{attempt}") as another:
                answer = launch.start(order, another)
        if answer == "gone":
            raise _unavailable(f"the supervisor of {spec.id} ended without a word")
        if not spec.cpus and shared != shared_cores.shared(str(self.root.path)):
            binding.bind(self.root, self._record(spec.id), spec)

    def _share_out(self) -> None:
        """Cores were taken or given back: those who share the rest are told."""
        shared_cores.settle(self.root, lambda record: binding.bind(self.root, record, record.spec))

    def _awaited(self, kernel_id: str) -> Record:
        """An existing kernel; one whose first start is still under way is waited for."""
        deadline = time.monotonic() + launch.PATIENCE
        while True:
            # In this order: who has ended since then has not begun since then.
            alive = self._record(kernel_id).alive
            record = self._record(kernel_id)
            if record.begun or not alive or time.monotonic() > deadline:
                return record
            time.sleep(0.01)

    @_speaking
    def update(self, kernel_id: str, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        with self.root.locked(kernel_id):
            record = self._record(kernel_id)
            fence()
            changed = replace(record.spec, **{name: getattr(spec, name) for name in IN_PLACE})
            problem = launch.problem(changed)
            if problem:
                raise KernelRefused(provider="process", kernel=kernel_id, why=problem)
            if record.alive:
                binding.bind(self.root, record, changed)
            self.root.rewrite(record, changed, again=False)
            if changed.scratch != record.spec.scratch:
                scratch.hold(record.folder, kernel_id, changed.scratch, new=False)
                self._signal(record, SIGHUP)
        if changed.cpus != record.spec.cpus:
            self._share_out()
        return self._now(kernel_id)

    # ending

    @_speaking
    def stop(self, kernel_id: str, *, grace: float, signal: str = "") -> Observed:
        with self.root.locked(kernel_id):
            record = self._record(kernel_id)
            if record.alive:
                self._ask(record, grace, launch.stop_signal(signal) if signal else None)
        own = record.spec.stop_grace if signal else 0.0
        if not self._wait(record, grace + own + STUBBORN):
            with self.root.locked(kernel_id):
                self._strike(self._record(kernel_id))
        seen = self._settled(kernel_id)
        self._sharing.take(record.spec)
        if record.spec.cpus:
            self._share_out()
        return seen or watch.observed(record)

    def _ask(self, record: Record, grace: float, number: int | None = None) -> None:
        request = {"grace": max(0.0, grace), "signal": number}
        # Without room for the request it is stopped with the grace of its own.
        with contextlib.suppress(OSError):
            files.write_atomically(str(record.folder / "stop.json"), json.dumps(request))
        self._signal(record, SIGTERM)

    def _signal(self, record: Record, number: int) -> None:
        """To the supervisor, which may be too young to have said who it is."""
        deadline = time.monotonic() + launch.PATIENCE
        while record.alive and time.monotonic() < deadline:
            state = self._record(record.id).state
            keeper, started = state.get("supervisor") or 0, state.get("supervisor_start") or 0
            if procfs.send(int(keeper), int(started), number):
                return
            time.sleep(0.01)

    def _wait(self, record: Record, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = 0.002
        while record.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        return True

    def _strike(self, record: Record) -> None:
        """End a supervisor that does not listen."""
        self._signal(record, SIGKILL)
        if not self._wait(record, STUBBORN):
            raise _unavailable(f"the supervisor of {record.id} cannot be killed")

    @_speaking
    def remove(self, kernel_id: str) -> None:
        stray = cgroup.below(list(self.machine.groups), kernel_id)
        if not self.root.folder(kernel_id).exists() and not cgroup.members(stray):
            return
        self.root.ensure()
        with self.root.locked(kernel_id):
            try:
                record = self.root.read(kernel_id)
            except ValueError:
                record = None
            if record is None:
                self._bury_unknown(kernel_id)
            else:
                self._end(record)
                self._discard(self.root.read(kernel_id) or record)
        if record is not None and record.spec.cpus:
            self._share_out()
        self._leave()

    def _end(self, record: Record) -> None:
        if record.alive:
            self._ask(record, 0.0)
            if not self._wait(record, STUBBORN):
                self._strike(record)

    def _discard(self, record: Record) -> None:
        """Nobody keeps it and nobody can begin to: the lock is ours while it disappears."""
        lock = files.open_lock(str(record.folder / "alive"))
        try:
            if not files.try_lock(lock):
                raise _unavailable(f"kernel {record.id} was started meanwhile")
            if not watch.sweep(self.root, record):
                raise _unavailable(f"processes of {record.id} cannot be killed")
            self._sharing.take(record.spec)
            self.root.discard(record.id)
            self.root.forget_lock(record.id)
        finally:
            os.close(lock)

    def _bury_unknown(self, kernel_id: str) -> None:
        """A folder whose record cannot be read: whatever runs under its name ends, then it goes."""
        groups = cgroup.below(list(self.machine.groups), kernel_id)
        procfs.kill_until_gone([self.root.mark(kernel_id)], -1)
        cgroup.kill(groups)
        cgroup.destroy(groups)
        self.root.discard(kernel_id)
        self.root.forget_lock(kernel_id)

    def _leave(self) -> None:
        """With the last kernel our groups go too; while others are being made this simply fails."""
        if self.root.ids():
            return
        shared_cores.forget(self.root)
        cgroup.tidy(list(self.machine.groups), seconds=1.0)
        self.__dict__.pop("machine", None)

    # output and entry

    @_speaking
    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        record = self._record(kernel_id)
        folder = str(record.folder / "logs")
        return logfile.output(folder, lambda: record.alive, follow=follow, tail=tail)

    @_speaking
    def execute(
        self, kernel_id: str, argv: tuple[str, ...], *, stdin: IO[bytes] | None = None, tty: bool = False
    ) -> int:
        from providers.process.interaction import execute as entry

        return entry.execute(self._entrance(kernel_id), argv, stdin=stdin, tty=tty)

    def _entrance(self, kernel_id: str) -> Entrance:
        from providers.process.interaction import execute as entry

        def boxed() -> bool:
            return self._wishes[0] and not sandbox.problem()

        return entry.Entrance(self._record(kernel_id), lambda: self._record(kernel_id), boxed)
