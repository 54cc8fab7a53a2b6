"""Between fork and exec: how a kernel's main process comes to be. Cheap imports only."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import termios

from providers.process.linux import cgroup
from providers.process.linux.procfs import MARKER
from providers.process.sandbox import sandbox_init

CHANGED_SIGNALS = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)
"""What the supervisor and Python handle differently from how a program expects to find it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    class Order(sandbox_init.Box):
        """Everything a supervisor is told, once, through its standard input. `env` holds the secrets too;
        without a sandbox `argv` is all of the command."""

        id: str
        nonce: str
        folder: str
        mark: str
        cwd: str
        signal: int
        grace: float
        timeout: float
        restart: str
        restarts: int
        groups: list[cgroup.Group]
        scope: bool
        sandboxed: bool
        tty: bool
        counted: bool
        """Whether its files are counted, as no quota holds them."""
        home: str
        """Its scratch folder as it sees it itself."""
        log_size: int
        log_files: int


class Spawned:
    """A started main process: `log` is its output, `status` is where the sandbox reports (−1 without one)."""

    def __init__(self, pid: int, log: int, status: int) -> None:
        self.pid = pid
        self.log = log
        self.status = status


def spawn_main_process(
    order: Order,
    groups: list[cgroup.Group],
    limits: cgroup.Limits,
    terminal: tuple[int, int] | None = None,
) -> Spawned:
    """Fork and exec the main process into its groups, on a terminal (our end, its end) when one is given.

    Raises OSError, with the errno of what failed in the child.
    """
    log_out, log_in = terminal or os.pipe2(os.O_CLOEXEC)
    fail_out, fail_in = os.pipe2(os.O_CLOEXEC)
    status_out, status_in = os.pipe2(os.O_CLOEXEC) if order["sandboxed"] else (-1, -1)
    own = os.getpid()
    pid = os.fork()
    if pid == 0:
        _exec_main_process(order, groups, limits, (log_in, fail_in, status_in), own)
    for descriptor in (log_in, fail_in, status_in):
        if descriptor >= 0:
            os.close(descriptor)
    with os.fdopen(fail_out, "rb") as stream:
        failure = stream.read().decode(errors="replace")
    if failure:
        os.waitpid(pid, 0)
        os.close(log_out)
        number, _, what = failure.partition(" ")
        raise OSError(int(number), os.strerror(int(number)), what)
    os.set_blocking(log_out, False)
    if status_out >= 0:
        os.set_blocking(status_out, False)
    return Spawned(pid, log_out, status_out)


def _exec_main_process(
    order: Order,
    groups: list[cgroup.Group],
    limits: cgroup.Limits,
    descriptors: tuple[int, int, int],
    supervisor: int,
) -> NoReturn:
    log, fail, status = descriptors
    what = order["argv"][0]
    try:
        os.setsid()
        _end_without_groups(groups, supervisor)
        cgroup.join(groups)
        _bind_without_groups(groups, limits)
        _reset_signals()
        if order["user"]:
            os.fchown(log, order["user"]["uid"], order["user"]["gid"])  # /dev/stdout can be opened by name.
        os.dup2(log if order["tty"] else os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if order["tty"] and not order["sandboxed"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        if status >= 0:
            os.set_inheritable(status, True)
        os.umask(0o022)
        what = order["cwd"]
        os.chdir(what)
        what = order["argv"][0]
        if order["sandboxed"]:
            what = ""
            sandbox_init.execute_sandbox(order, status, {MARKER: order["mark"]})
        os.execvpe(what, order["argv"], order["env"])
    except OSError as error:
        os.write(fail, f"{error.errno or 5} {what or error.filename}".encode())
    finally:
        os._exit(127)


def _end_without_groups(groups: list[cgroup.Group], supervisor: int) -> None:
    """With its supervisor, where no control group finds it: only its environment tells whose it is, which
    nobody can read while it becomes the program."""
    if not groups:
        from providers.process.linux import parent_death

        parent_death.end_with_parent(supervisor)


def _bind_without_groups(groups: list[cgroup.Group], limits: cgroup.Limits) -> None:
    """Affinity and a limit per process, where no control group does it better."""
    have = {name for group in groups for name in group["controllers"]}
    cpus = limits["cpus"] or limits["pool"]
    if "cpuset" not in have and cpus:
        os.sched_setaffinity(0, cpus)
    if "memory" not in have and limits["memory"]:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = limits["memory"] if hard == resource.RLIM_INFINITY else min(hard, limits["memory"])
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, wanted))


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in CHANGED_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
