"""Reading kernels back: record, liveness and the kernel's own view of its limits make one `Observed`."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from providers.base import KernelState, Observed, env_digest
from providers.process.linux import cgroup, files, procfs

if TYPE_CHECKING:
    from providers.process.supervision.records import KernelRecord, KernelRoot

PAGE = os.sysconf("SC_PAGE_SIZE")


def observe_kernel(root: KernelRoot, kernel_id: str) -> tuple[KernelRecord, Observed] | None:
    """One kernel, None when there is none. Raises ValueError and OSError when its record cannot be read.

    Who died between the reading of its record and the look at its lock may have recorded its end just before:
    what seems lost is read once more, now that nothing can change.
    """
    record = root.read(kernel_id)
    if record is None:
        return None
    seen = observe_record(record)
    if seen.state != "lost":
        return record, seen
    record = root.read(kernel_id)
    return None if record is None else (record, observe_record(record))


def observe_record(record: KernelRecord) -> Observed:
    """One kernel as its record and its lock say. Changes nothing."""
    alive, state = record.alive, record.state
    phase = _kernel_state(record, alive)
    pid = main_pid(state) if alive else None
    status = procfs.status(pid) if pid else {}
    ended = phase in ("exited", "lost")
    return Observed(
        id=record.id,
        labels=record.spec.labels,
        state=phase,
        exit_code=state.get("exit_code") if phase == "exited" else None,
        reason=str(state.get("reason") or _end_reason(record, phase)),
        created=_as_time(record.created),
        started=_as_time(state.get("started")),
        finished=_as_time(state.get("finished")) if ended else None,
        restarts=int(state.get("restarts", 0)),
        pid=pid,
        cpus=procfs.cpulist(status.get("Cpus_allowed_list", "")),
        memory_nodes=procfs.cpulist(status.get("Mems_allowed_list", "")),
        memory=_limit_in_force(record, "memory") if pid else 0,
        pids=_limit_in_force(record, "pids") if pid else 0,
        scratch=record.spec.scratch if pid else 0,
        env_digest=env_digest(record.spec.env),
    )


def _kernel_state(record: KernelRecord, alive: bool) -> KernelState:
    phase = record.state.get("phase")
    if phase in ("exited", "lost"):
        return "exited" if phase == "exited" else "lost"
    if not record.begun:
        return "creating"
    if not alive:
        return "lost"
    return "stopping" if (record.folder / "stop.json").exists() else "running"


def _end_reason(record: KernelRecord, phase: KernelState) -> str:
    if phase == "lost":
        rebooted = record.state.get("boot") != procfs.boot_id()
        return "the machine was restarted" if rebooted else "its supervisor died"
    return "waiting to restart" if record.state.get("phase") == "backoff" else ""


def main_pid(state: Any) -> int | None:
    """The process that runs the command: inside a sandbox, the child of the namespace's first process."""
    inner = int(state.get("inner") or 0)
    if inner and procfs.start_time(inner) == state.get("inner_start"):
        below = procfs.children(inner)
        return below[0] if below else inner
    pid = int(state.get("pid") or 0)
    return pid if pid and procfs.start_time(pid) == state.get("pid_start") else None


def _limit_in_force(record: KernelRecord, controller: str) -> int:
    """The limit in force; the one asked for when they differ by rounding to pages only."""
    try:
        found = cgroup.enforced(record.groups, controller)
    except (OSError, ValueError):
        return 0
    asked = record.spec.memory
    return asked if controller == "memory" and asked // PAGE * PAGE == found else found


def _as_time(seconds: Any) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int | float) else None


def settle_dead(root: KernelRoot, record: KernelRecord) -> KernelRecord:
    """A kernel whose supervisor died: nothing of it runs on, and the record says so.

    The kernel's lock is held.
    """
    sweep_remains(root, record)
    state = {**record.state, "phase": "lost", "reason": _end_reason(record, "lost"), "finished": time.time()}
    try:
        files.write_atomically(str(record.folder / "state.json"), json.dumps(state))
    except OSError:
        # Written down when there is room again: whoever looks then finds it lost once more.
        return replace(record, state=state)
    return root.read(record.id) or record


def await_supervisor_end(record: KernelRecord) -> None:
    """Who dies gives its lock back a moment before what ends with it is killed."""
    pid, started = record.state.get("supervisor"), record.state.get("supervisor_start")
    if pid and started:
        procfs.await_end(int(pid), int(started))


def sweep_remains(root: KernelRoot, record: KernelRecord) -> bool:
    """Kill what is left of a kernel without a supervisor, and drop its groups.

    False when something resists.
    """
    same_boot = record.state.get("boot") == procfs.boot_id()
    if same_boot:
        await_supervisor_end(record)
    killed = cgroup.kill(record.groups) if same_boot else True
    if same_boot:
        killed = procfs.kill_until_gone([root.mark(record.id)], -1) and killed
    return cgroup.destroy(record.groups, seconds=5.0) and killed
