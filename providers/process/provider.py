"""The process provider: kernels as native process trees of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from signal import SIGHUP, SIGKILL, SIGTERM
from subprocess import Popen
from typing import IO, TYPE_CHECKING

from providers.base import Capabilities, Fence, KernelSpec, Observation, Observed, unfenced
from providers.process.gpu_fractions import GpuFractions
from providers.process.host_capabilities import GroupAccess, HostCapabilities, examine_host, find_groups
from providers.process.interaction.interaction import Interaction, log_stream
from providers.process.linux import cgroup, cgroup_mounts, files, procfs
from providers.process.os_errors import translate_errors
from providers.process.supervision import binding, logfile, shared_cores
from providers.process.supervision.observe import (
    await_supervisor_end,
    observe_kernel,
    observe_record,
    settle_dead,
    sweep_remains,
)
from providers.process.supervision.records import DEFAULT_LOG, PATIENCE, KernelRecord, KernelRoot, LogRotation
from schemas.problems.errors.kernel import KernelNotFound, KernelRefused
from schemas.problems.errors.provider import ProviderUnavailable
from schemas.problems.errors.store import StoreError

if TYPE_CHECKING:
    from providers.process.interaction.execute import ExecTarget

IN_PLACE = frozenset({"cpus", "memory_nodes", "memory", "pids", "scratch", "labels"})
TAKEN_ATTEMPTS = 5
KILL_AFTER = 30.0
"""Seconds beyond the grace before a supervisor that does not end is killed itself."""


def _unavailable(why: str) -> ProviderUnavailable:
    return ProviderUnavailable(provider="process", why=why)


class ProcessProvider(Interaction, GpuFractions):
    """A `Provider` on this machine, with everything it keeps under `root`.

    `sandbox` and `cgroups` False do without even where they work; `hami`: where libvgpu.so is; `etc`: what
    else of the machine's /etc kernels see.
    """

    def __init__(
        self,
        root: Path,
        *,
        sandbox: bool = True,
        cgroups: bool = True,
        log: LogRotation = DEFAULT_LOG,
        hami: str = "",
        etc: Sequence[str] = (),
    ) -> None:
        self.root = KernelRoot(root)
        self._hami = hami
        self._wanted = (sandbox, cgroups)
        self._log = log
        self._etc = tuple(etc)

    @cached_property
    def host(self) -> HostCapabilities:
        """What can be enforced here; found out once per provider."""
        return examine_host(self._group_access, str(self.root.path), want_sandbox=self._wanted[0])

    @cached_property
    def _group_access(self) -> GroupAccess:
        """The part of that which whoever only looks needs."""
        return find_groups(self.base, wanted=self._wanted[1])

    @property
    def _groups(self) -> list[cgroup.Group]:
        return list(self._group_access.groups)

    @property
    def base(self) -> str:
        """Name of this root's control group."""
        return f"bai-{self.root.key}"

    def capabilities(self) -> Capabilities:
        from providers.process.sandbox.bubblewrap import sandbox_cautions

        host = self.host
        cautions = sandbox_cautions(self.root.path) if host.sandbox else ()
        return Capabilities(
            "process", host.limits, dict(host.missing), IN_PLACE, timeouts=True, cautions=cautions
        )

    def close(self) -> None:
        """There are no connections: every kernel has a supervisor on this machine."""

    # reading

    @translate_errors
    def observe(self) -> Observation:
        kernels: list[Observed] = []
        errors: list[str] = []
        unlabelled: list[str] = []
        for kernel_id in self.root.ids():
            try:
                seen = self._observe_settled(kernel_id)
            except (OSError, ValueError, KernelRefused) as error:
                errors.append(f"{kernel_id}: {error}")
                unlabelled.append(kernel_id)
                continue
            if seen is not None:
                kernels.append(seen)
        unlabelled.extend(self._unrecorded())
        if self.root.mps.is_dir():
            living = {kernel.id for kernel in kernels if kernel.state in ("creating", "running")}
            self._sharing.revive_daemons(living)
        return Observation(tuple(kernels), not errors, tuple(errors), tuple(unlabelled))

    def _unrecorded(self) -> list[str]:
        """Groups that hold processes but have no record: somebody deleted our files under running kernels."""
        known = {*self.root.ids(), cgroup.KEEPERS}
        names = {name for group in self._groups for name in cgroup_mounts.names(group["path"])}
        strays = [name for name in sorted(names - known) if cgroup.members(cgroup.below(self._groups, name))]
        return [name for name in strays if not self.root.folder(name).exists()]

    def _observe_settled(self, kernel_id: str) -> Observed | None:
        """The kernel; if its supervisor died, what was left of it has been cleaned up."""
        found = observe_kernel(self.root, kernel_id)
        if found is None or found[1].state != "lost" or found[0].state.get("phase") == "lost":
            return found and found[1]
        with self.root.locked(kernel_id):
            found = observe_kernel(self.root, kernel_id)
            if found is None or found[1].state != "lost":
                return found and found[1]
            return observe_record(settle_dead(self.root, found[0]))

    def _read_record(self, kernel_id: str) -> KernelRecord:
        record = self.root.read(kernel_id)
        if record is None:
            raise KernelNotFound(provider="process", kernel=kernel_id)
        return record

    def _observe_now(self, kernel_id: str) -> Observed:
        found = observe_kernel(self.root, kernel_id)
        if found is None:
            raise KernelNotFound(provider="process", kernel=kernel_id)
        return found[1]

    # making

    @translate_errors
    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        from providers.process import launch

        self.root.ensure()
        with self.root.locked(spec.id):
            record = self.root.read(spec.id)
            if record is not None and (record.begun or record.alive):
                record = self._await_start(spec.id)
                if record.begun or record.alive:
                    return self._observe_now(spec.id)
                # The supervisor that a killed creator left has died before it began.
            launch.check_spec(spec)
            with self._new_supervisor(spec) as keeper:
                record = self._write_intent(record, spec)
                try:
                    fence()
                    self._launch(record, spec, keeper)
                except (KernelRefused, StoreError):
                    self._await_end(record, KILL_AFTER)
                    self._discard_record(self.root.read(spec.id) or record)
                    self._tidy_when_empty()
                    raise
            self._await_start(spec.id)
            return self._observe_now(spec.id)

    def _write_intent(self, record: KernelRecord | None, spec: KernelSpec) -> KernelRecord:
        if record is not None:
            await_supervisor_end(record)
            return self.root.rewrite(record, spec, again=True)
        self.root.sweep(spec.id)
        return self.root.stage(spec, time.time())

    def _new_supervisor(self, spec: KernelSpec, attempt: str = "") -> AbstractContextManager[Popen[bytes]]:
        from providers.process import launch

        return launch.waiting_supervisor(spec.id, f"{self.base}-{spec.id}{attempt}", scope=self.host.scope)

    def _launch(self, record: KernelRecord, spec: KernelSpec, keeper: Popen[bytes]) -> None:
        from providers.process import launch

        if spec.cpus:
            self._share_out()
        limits = self._sharing.prepare(spec, sandboxed=self.host.sandbox)
        order = launch.launch_order(self.root, record, spec, self.host, self._log, limits, self._etc)
        answer = launch.start_kernel(order, keeper)
        for attempt in range(1, TAKEN_ATTEMPTS):
            if answer != "taken" or self._await_start(spec.id).begun:
                break
            # A supervisor of an attempt that died held the lock just then, and found itself not wanted.
            with self._new_supervisor(spec, f"-{attempt}") as another:
                answer = launch.start_kernel(order, another)
        if answer == "gone":
            raise _unavailable(f"the supervisor of {spec.id} ended without a word")

    def _share_out(self) -> None:
        """Cores were taken or given back: those who share the rest are told."""
        shared_cores.share_out(self.root, lambda record: binding.bind_limits(self.root, record, record.spec))

    def _await_start(self, kernel_id: str) -> KernelRecord:
        """An existing kernel; one whose first start is still under way is waited for."""
        deadline = time.monotonic() + PATIENCE
        while True:
            # In this order: who has ended since then has not begun since then.
            alive = self._read_record(kernel_id).alive
            record = self._read_record(kernel_id)
            if record.begun or not alive or time.monotonic() > deadline:
                return record
            time.sleep(0.01)

    @translate_errors
    def update(self, kernel_id: str, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        from providers.process import launch
        from providers.process.supervision import scratch

        with self.root.locked(kernel_id):
            record = self._read_record(kernel_id)
            fence()
            changed = replace(record.spec, **{name: getattr(spec, name) for name in IN_PLACE})
            problem = launch.spec_problem(changed)
            if problem:
                raise KernelRefused(provider="process", kernel=kernel_id, why=problem)
            if record.alive:
                binding.bind_limits(self.root, record, changed)
            self.root.rewrite(record, changed, again=False)
            if record.alive:  # what was started again meanwhile, with the limits of before
                binding.bind_limits(self.root, record, changed)
            if changed.scratch != record.spec.scratch:
                scratch.set_limit(record.folder, kernel_id, changed.scratch, new=False)
                self._signal(record, SIGHUP)
        if changed.cpus != record.spec.cpus:
            self._share_out()
        return self._observe_now(kernel_id)

    # ending

    @translate_errors
    def stop(self, kernel_id: str, *, grace: float, signal: str = "") -> Observed:
        from providers.process import launch

        with self.root.locked(kernel_id):
            record = self._read_record(kernel_id)
            if record.alive:
                self._request_stop(record, grace, launch.stop_signal(signal) if signal else None)
        own = record.spec.stop_grace if signal else 0.0
        if not self._await_end(record, grace + own + KILL_AFTER):
            with self.root.locked(kernel_id):
                self._kill_supervisor(self._read_record(kernel_id))
        seen = self._observe_settled(kernel_id)
        self._sharing.release(record.spec)
        if record.spec.cpus:
            self._share_out()
        return seen or observe_record(record)

    def _request_stop(self, record: KernelRecord, grace: float, number: int | None = None) -> None:
        request = {"grace": max(0.0, grace), "signal": number}
        # Without room for the request it is stopped with the grace of its own.
        with contextlib.suppress(OSError):
            files.write_atomically(str(record.folder / "stop.json"), json.dumps(request))
        self._signal(record, SIGTERM)

    def _signal(self, record: KernelRecord, number: int) -> None:
        """To the supervisor, which may be too young to have said who it is."""
        deadline = time.monotonic() + PATIENCE
        while record.alive and time.monotonic() < deadline:
            state = self._read_record(record.id).state
            keeper, started = state.get("supervisor") or 0, state.get("supervisor_start") or 0
            if procfs.send(int(keeper), int(started), number):
                return
            time.sleep(0.01)

    def _await_end(self, record: KernelRecord, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = 0.002
        while record.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        return True

    def _kill_supervisor(self, record: KernelRecord) -> None:
        """End a supervisor that does not listen."""
        self._signal(record, SIGKILL)
        if not self._await_end(record, KILL_AFTER):
            raise _unavailable(f"the supervisor of {record.id} cannot be killed")

    @translate_errors
    def remove(self, kernel_id: str) -> None:
        stray = cgroup.below(self._groups, kernel_id)
        if not self.root.folder(kernel_id).exists() and not cgroup.members(stray):
            return self.sweep(kernel_id)
        self.root.ensure()
        with self.root.locked(kernel_id):
            try:
                record = self.root.read(kernel_id)
            except ValueError:
                record = None
            if record is None:
                self._remove_unreadable(kernel_id)
            else:
                self._end_supervisor(record)
                self._discard_record(self.root.read(kernel_id) or record)
        if record is not None and record.spec.cpus:
            self._share_out()
        self._tidy_when_empty()

    @translate_errors
    def sweep(self, kernel_id: str) -> None:
        """See `providers.abilities.SweepsLeftovers`."""
        if self.root.has_leftovers(kernel_id):
            with self.root.locked(kernel_id):
                if not self.root.folder(kernel_id).exists():
                    self.root.sweep(kernel_id)
                    self.root.forget_lock(kernel_id)

    def _end_supervisor(self, record: KernelRecord) -> None:
        if record.alive:
            self._request_stop(record, 0.0)
            if not self._await_end(record, KILL_AFTER):
                self._kill_supervisor(record)

    def _discard_record(self, record: KernelRecord) -> None:
        """Nobody keeps it and nobody can begin to: the lock is ours while it disappears."""
        lock = files.open_lock(str(record.folder / "alive"))
        try:
            if not files.try_lock(lock):
                raise _unavailable(f"kernel {record.id} was started meanwhile")
            if not sweep_remains(self.root, record):
                raise _unavailable(f"processes of {record.id} cannot be killed")
            self._sharing.release(record.spec)
            self.root.discard(record.id)
            self.root.forget_lock(record.id)
        finally:
            os.close(lock)

    def _remove_unreadable(self, kernel_id: str) -> None:
        """A folder whose record cannot be read: whatever runs under its name ends, then it goes."""
        groups = cgroup.below(self._groups, kernel_id)
        procfs.kill_until_gone([self.root.mark(kernel_id)], -1)
        cgroup.kill(groups)
        cgroup.destroy(groups)
        self.root.discard(kernel_id)
        self.root.forget_lock(kernel_id)

    def _tidy_when_empty(self) -> None:
        """With the last kernel our groups go too; while others are being made this simply fails."""
        if self.root.ids():
            return
        shared_cores.forget(self.root)
        cgroup.tidy(self._groups, seconds=1.0)
        for known in ("host", "_group_access"):
            self.__dict__.pop(known, None)

    # output and entry

    @translate_errors
    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        record = self._read_record(kernel_id)
        folder = str(record.folder / "logs")
        return log_stream(record, lambda alive: logfile.output(folder, alive, follow=follow, tail=tail))

    @translate_errors
    def execute(
        self, kernel_id: str, argv: tuple[str, ...], *, stdin: IO[bytes] | None = None, tty: bool = False
    ) -> int:
        from providers.process.interaction.execute import execute

        return execute(self._exec_target(kernel_id), argv, stdin=stdin, tty=tty)

    def _exec_target(self, kernel_id: str) -> ExecTarget:
        from providers.process.interaction.execute import ExecTarget
        from providers.process.sandbox.bubblewrap import sandbox_problem

        def is_sandboxed() -> bool:
            return self._wanted[0] and not sandbox_problem()

        return ExecTarget(self._read_record(kernel_id), lambda: self._read_record(kernel_id), is_sandboxed)
