"""The tiny process that outlives bai and keeps one kernel: starts it, restarts it, stops it, records how it
ended.

Told everything once through standard input; answers one JSON line on standard output when the kernel runs, or
cannot. From then on it is asked through a file and a signal: `stop.json` + SIGTERM. Its life is visible as a
lock on `alive`, which the system drops however it dies. Cheap imports only: start-up time is paid per kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time

from providers.process.linux import cgroup, procfs
from providers.process.supervision import stopping, supervisor_setup
from providers.process.supervision.child import Spawned, spawn_main_process
from providers.process.supervision.console import Console
from providers.process.supervision.file_count import GRACE, ScratchCounter
from providers.process.supervision.logfile import LogWriter
from providers.process.supervision.state_file import StateFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from providers.process.supervision.child import Order

BACKOFF_FIRST = 1.0
BACKOFF_MOST = 60.0
BACKOFF_FORGIVEN = 60.0
"""Seconds a kernel must have run for the back-off to start over."""


class StartRefused(Exception):
    """The kernel cannot be started as asked."""


class Supervisor:
    """One kernel's keeper. `record` is what `state.json` says, always complete."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.folder = order["folder"]
        self.groups = order["groups"]
        self.record: dict[str, object] = {"phase": "starting", "restarts": 0, "boot": procfs.boot_id()}
        self.child: Spawned | None = None
        self.inner = 0
        self.report = b""
        """What of the sandbox's report was read and is no whole line yet."""
        self.began = 0.0
        self.first = 0.0
        self.backoff = BACKOFF_FIRST
        self.restart_at: float | None = None
        self.kill_at: float | None = None
        self.stop_at: float | None = None
        """When the kernel's own stop signal follows the notice that it was given."""
        self.ending = ""
        """Why the kernel is being ended on purpose: `stopped`, `timeout`, or that its files take too much."""
        self.restarts = 0
        self.oom_before = 0
        self.state_file = StateFile(self.folder)
        self.console: Console | None = None
        self.counter = ScratchCounter(self.folder, order["home"], active=order["counted"])

    # starting

    def prepare(self) -> None:
        """Take the kernel over.

        Nobody else keeps it, nothing of an earlier attempt runs, the groups exist.
        """
        self._set_signal_handlers()
        if self.order["scope"]:
            self.groups = supervisor_setup.split_scope()
        else:
            supervisor_setup.leave_session(self.groups)
        if not self.groups:
            supervisor_setup.become_subreaper()
        own = os.getpid()
        self.record.update(supervisor=own, supervisor_start=procfs.start_time(own), groups=self.groups)
        self.state_file.write(self.record)
        self.state_file.keep_room()
        self._sweep()
        cgroup.make(self.groups)
        logs = os.path.join(self.folder, "logs")
        self.log = LogWriter(logs, self.order["log_size"], self.order["log_files"])
        if self.order["tty"]:
            self.console = Console(self.folder)

    def start(self) -> None:
        """One run of the main process. Raises StartRefused."""
        limits = supervisor_setup.current_limits(self.folder)
        try:
            cgroup.limit(self.groups, limits)
            self.oom_before = cgroup.oom_kills(self.groups)
            terminal = self.console.renew() if self.console else None
            self.child = spawn_main_process(self.order, self.groups, limits, terminal)
        except OSError as error:
            raise StartRefused(f"{error.filename or self.order['argv'][0]}: {error.strerror}") from error
        self.began = time.monotonic()
        self.first = self.first or self.began
        self.inner, self.report = 0, b""
        self.restart_at = None
        self.counter.renew()
        now = time.time()
        self.record.setdefault("started", now)
        self.record.update(phase="running", pid=self.child.pid, restarts=self.restarts, reason="")
        self.record["pid_start"] = procfs.start_time(self.child.pid)
        if self.restarts:
            self.save()
        else:
            self.state_file.write(self.record)
        supervisor_setup.bind_if_changed(self.folder, self.groups, limits)

    def save(self) -> None:
        self.state_file.save(self.record)

    def _set_signal_handlers(self) -> None:
        self.woken, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)

    # keeping

    def keep(self) -> None:
        """Until the kernel has ended for good, and that is written down."""
        while self.child is not None or self.restart_at is not None or self.state_file.due is not None:
            self._wait()
            self._drain()
            status = self._reap()
            if status is not None:
                self._child_ended(status)
            self._check_deadlines()
            self._count_files()

    def _wait(self) -> None:
        poller = select.poll()
        poller.register(self.woken, select.POLLIN)
        if self.child is not None:
            held = self.console is not None and self.console.holds_output()
            for descriptor in (-1 if held else self.child.log, self.child.status):
                if descriptor >= 0:
                    poller.register(descriptor, select.POLLIN)
        if self.counter.answer >= 0:
            poller.register(self.counter.answer, select.POLLIN)
        for descriptor, events in self.console.wants() if self.console else ():
            poller.register(descriptor, events)
        moments = [self.restart_at, self.state_file.due, self._timeout_at()]
        moments.append(self.console.due() if self.console else None)
        if self.child is not None:
            moments += [self.stop_at, self.kill_at, self.counter.due]
        due = [moment for moment in moments if moment is not None]
        timeout = None if not due else max(0.0, min(due) - time.monotonic()) * 1000 + 1
        ready = [descriptor for descriptor, _ in poller.poll(timeout)]
        asked = os.read(self.woken, 4096) if self.woken in ready else b""
        if signal.SIGHUP in asked:
            self.counter.renew()
        if signal.SIGTERM in asked:
            # The sandbox may have said just now whom to signal: without it, only the sandbox itself.
            self._drain()
            self._asked_to_stop()
        if self.console is not None:
            self.console.handle(ready)

    def _timeout_at(self) -> float | None:
        timeout = self.order["timeout"]
        over = self.child is None and self.restart_at is None
        return self.first + timeout if timeout > 0 and not self.ending and not over else None

    def _drain(self) -> None:
        if self.child is None:
            return
        if self.child.status >= 0 and not self._read_status(self.child.status):
            os.close(self.child.status)
            self.child.status = -1
        if self.child.log >= 0 and not self._copy(64):
            os.close(self.child.log)
            self.child.log = -1

    def _copy(self, chunks: int, *, last: bool = False) -> bool:
        """Move waiting output into the log; False at its end. What is `last` waits for nobody."""
        assert self.child is not None
        for _ in range(chunks):
            if not last and self.console is not None and self.console.holds_output():
                return True
            try:
                data = os.read(self.child.log, 1 << 16)
            except BlockingIOError:
                return True
            except OSError:  # a terminal that nobody has open any more
                return False
            if not data:
                return False
            self.log.write(data)
            if self.console is not None:
                self.console.show(data)
        return True

    def _read_status(self, descriptor: int) -> bool:
        """Learn the sandbox's inner process (the namespace's first) from its report; False at the end."""
        try:
            data = os.read(descriptor, 4096)
        except BlockingIOError:
            return True
        # It is written piece by piece: a line counts when it is whole.
        *lines, self.report = (self.report + data).split(b"\n")
        for line in lines:
            try:
                self.inner = int(json.loads(line).get("child-pid", self.inner))
            except ValueError:
                continue
        if data and self.inner and self.record.get("inner") != self.inner:
            self.record.update(inner=self.inner, inner_start=procfs.start_time(self.inner))
            self.save()
        return bool(data)

    def _reap(self) -> int | None:
        """The main process's wait status when it has ended.

        Orphans that were given to us are reaped on the way.
        """
        found = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return found
            if pid == 0:
                return found
            if self.child is not None and pid == self.child.pid:
                found = status

    # ending

    def _asked_to_stop(self) -> None:
        grace, number = stopping.read_stop_request(self.folder, self.order["grace"])
        if number is not None and grace > 0 and self.child is not None and self.kill_at is None:
            self._notify(number, grace)
        else:
            self._end("stopped", grace)

    def _notify(self, number: int, grace: float) -> None:
        """A notice first: after its grace the kernel is stopped as usual."""
        self.ending = self.ending or "stopped"
        if self.stop_at is None:
            self._signal_group(number)
            self.stop_at = time.monotonic() + grace

    def _end(self, why: str, grace: float) -> None:
        self.ending = self.ending or why
        deadline = time.monotonic() + max(0.0, grace)
        first_time = self.kill_at is None
        self.kill_at = deadline if self.kill_at is None else min(self.kill_at, deadline)
        self.stop_at = None
        if self.child is None:
            self.restart_at = None
            self._finish()
        elif first_time and grace > 0:
            self._signal_group(self.order["signal"])

    def _signal_group(self, number: int) -> None:
        assert self.child is not None
        stopping.signal_group(self.child.pid, self.inner, number, tty=self.order["tty"])

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        expiry = self._timeout_at()
        if expiry is not None and now >= expiry:
            self._end("timeout", self.order["grace"])
        if self.stop_at is not None and now >= self.stop_at and self.child is not None:
            self._end("stopped", self.order["grace"])
        if self.kill_at is not None and now >= self.kill_at and self.child is not None:
            self._sweep()
        if self.restart_at is not None and now >= self.restart_at:
            self._restart()
        if self.state_file.due is not None and now >= self.state_file.due:
            self.save()

    def _count_files(self) -> None:
        """What its files take, when it is time for that."""
        if self.counter.answer >= 0:
            why = self.counter.read_answer()
            if why and self.child is not None and not self.ending:
                self._end(why, min(GRACE, self.order["grace"]))
        if self.child is None or self.ending:
            self.counter.due = None
        elif self.counter.due is not None and time.monotonic() >= self.counter.due:
            self.counter.begin(self._processes())

    def _processes(self) -> set[int]:
        return cgroup.members(self.groups) or set(procfs.descendants(os.getpid()))

    def _restart(self) -> None:
        self.restarts += 1
        try:
            self.start()
        except StartRefused as error:
            self.restart_at = None
            self.record.update(exit_code=127, reason=f"cannot start again: {error}")
            self._finish()

    def _sweep(self) -> None:
        """Kill whatever is left of the kernel, daemons included."""
        cgroup.kill(self.groups)
        if not self.groups:
            for pid in procfs.descendants(os.getpid()):
                procfs.send(pid, procfs.start_time(pid), signal.SIGKILL)
            procfs.kill_until_gone([self.order["mark"]], os.getpid())

    def _child_ended(self, status: int) -> None:
        """The main process is gone: its tree goes with it, then restart or finish."""
        child = self.child
        assert child is not None
        oom = cgroup.oom_kills(self.groups) > self.oom_before
        self._sweep()
        if child.log >= 0:
            self._copy(1 << 12, last=True)
            os.close(child.log)
        if child.status >= 0:
            os.close(child.status)
        self.child = None
        sandboxed = self.order["sandboxed"]
        code, reason = stopping.explain_exit(status, oom=oom, why=self.ending, sandboxed=sandboxed)
        self.record.update(exit_code=code, reason=reason, pid=0, inner=0, finished=time.time())
        if self._restarts_after(code):
            self._back_off()
        else:
            self._finish()

    def _restarts_after(self, code: int) -> bool:
        policy, most = self.order["restart"], self.order["restarts"]
        wanted = policy == "always" or (policy == "on-failure" and code != 0)
        return wanted and not self.ending and (most == 0 or self.restarts < most)

    def _back_off(self) -> None:
        now = time.monotonic()
        if now - self.began >= BACKOFF_FORGIVEN:
            self.backoff = BACKOFF_FIRST
        self.restart_at = now + self.backoff
        self.backoff = min(self.backoff * 2, BACKOFF_MOST)
        self.record["phase"] = "backoff"
        self.save()

    def _finish(self) -> None:
        self.record.update(phase="exited", pid=0)
        self.record.setdefault("finished", time.time())
        self.record.setdefault("exit_code", 143)
        if self.ending and self.record.get("reason") == "":
            self.record["reason"] = self.ending
        self.save()
        self.dismantle()

    def clear(self) -> None:
        """Nothing is left of a start that failed."""
        with contextlib.suppress(OSError):
            self._sweep()
        self.dismantle()

    def dismantle(self) -> None:
        if self.console is not None:
            self.console.close()
            self.console = None
        if self.order["scope"] and self.groups:
            return
        cgroup.destroy(self.groups, seconds=2.0)


def main() -> None:
    """Entry: `python -I -S -c … <packages> <kernel id>`, the order on standard input until its end."""
    if os.geteuid() == 0:
        # Now nobody waits for it yet.
        from providers.process.sandbox import user_switch  # noqa: F401
    try:
        order: Order = json.loads(sys.stdin.buffer.read())
    except ValueError:
        return
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    os.chdir("/")
    if supervisor_setup.take_over(order) < 0:
        supervisor_setup.send_answer(state="taken")
        return
    supervisor = Supervisor(order)
    try:
        supervisor.prepare()
        supervisor.start()
    except (StartRefused, OSError) as error:
        supervisor.clear()
        supervisor_setup.send_answer(state="refused", why=str(error))
        return
    supervisor_setup.send_answer(state="running")
    supervisor.keep()
