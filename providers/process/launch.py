"""From a spec to a running supervisor: the order it is given, and its answer."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from providers import accounts
from providers.base import KernelSpec, Limit
from providers.process.gpu_share import ShareLimits
from providers.process.linux import cgroup
from providers.process.linux.procfs import MARKER, cpulist
from providers.process.sandbox import bubblewrap, mounts, runtime_files, seccomp, user_switch
from providers.process.supervision import scratch as scratch_quota
from providers.process.supervision.kernel_process import FILTER
from providers.process.supervision.records import PATIENCE
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderUnavailable
from schemas.values.linux_users import FIRST_REGULAR_ID

if TYPE_CHECKING:
    from providers.process.host_capabilities import HostCapabilities
    from providers.process.supervision.child import Order
    from providers.process.supervision.records import KernelRecord, KernelRoot, LogRotation

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PACKAGES = str(Path(__file__).resolve().parents[2])
_BOOT = (
    "import sys;sys.path.append(sys.argv[1]);from providers.process.supervision.supervisor import main;main()"
)


def check_spec(spec: KernelSpec) -> None:
    """What can be known to be wrong before anything is touched. Raises KernelRefused."""
    why = spec_problem(spec) or _user_problem(spec)
    if why:
        raise KernelRefused(provider="process", kernel=spec.id, why=why)
    mounts.check_mounts(spec)


def spec_problem(spec: KernelSpec) -> str:
    """Why this cannot run here; empty when nothing speaks against it."""
    if not spec.command or not spec.command[0]:
        return "there is no command"
    words = (*spec.command, spec.workdir, *spec.env.values(), *spec.secret_env.values())
    if any("\0" in word for word in words):
        return "a NUL byte cannot be part of a command or an environment"
    bad = [name for name in (*spec.env, *spec.secret_env) if not name or "=" in name or "\0" in name]
    if bad:
        return f"{bad[0]!r} cannot be the name of an environment variable"
    if why := runtime_files.files_problem(spec):
        return why
    if ".." in spec.workdir.split("/"):
        return f"working directory {spec.workdir!r} leads out of the kernel"
    absent = sorted(set(spec.cpus) - _online_cpus())
    if absent:
        return f"CPU {absent[0]} is not online on this machine"
    if stop_signal(spec.stop_signal) is None:
        return f"{spec.stop_signal!r} is not a signal"
    return ""


def _user_problem(spec: KernelSpec) -> str:
    """Why root cannot become its user; empty when it can, or has not to."""
    if os.geteuid() != 0:
        return ""
    if spec.uid is None or spec.uid < FIRST_REGULAR_ID:
        return f"there is no user that it may run as: {spec.uid} is none, or one of the system's"
    # The user namespace of a container has but some users.
    lines = Path("/proc/self/uid_map").read_text().splitlines()
    ranges = [[int(word) for word in line.split()] for line in lines]
    if any(first <= spec.uid < first + length for first, _, length in ranges):
        return ""
    return f"this user namespace has no user {spec.uid}: set spec.sessionUids of the Cluster"


def _online_cpus() -> set[int]:
    return set(cpulist(Path("/sys/devices/system/cpu/online").read_text()))


def stop_signal(name: str) -> int | None:
    try:
        return int(signal.Signals[name if name.startswith("SIG") else f"SIG{name}"])
    except KeyError:
        return None


def kernel_environment(spec: KernelSpec, scratch: Path, mark: str, *, sandboxed: bool) -> dict[str, str]:
    """The spec's own, over defaults for PATH, LANG and HOME; nothing else of the caller's."""
    defaults = {
        "PATH": _visible_path() if sandboxed else os.environ.get("PATH") or STANDARD_PATH,
        "LANG": os.environ.get("LANG") or "C.UTF-8",
        "HOME": str(mounts.HOME) if sandboxed else str(scratch),
    }
    if sandboxed:
        defaults |= {"USER": accounts.USER, "LOGNAME": accounts.USER}
    if spec.tty:
        defaults["TERM"] = "xterm"
    return {**defaults, **spec.env, **spec.secret_env, MARKER: mark}


def _visible_path() -> str:
    """The caller's PATH as far as it can be seen in a sandbox."""
    shown = (*bubblewrap.SYSTEM, *bubblewrap.LINKS)
    folders = [part for part in (os.environ.get("PATH") or "").split(":") if part.startswith("/")]
    kept = [part for part in folders if any(part == top or part.startswith(top + "/") for top in shown)]
    return ":".join(dict.fromkeys([*kept, *STANDARD_PATH.split(":")]))


def launch_order(
    root: KernelRoot,
    record: KernelRecord,
    spec: KernelSpec,
    host: HostCapabilities,
    log: LogRotation,
    limits: ShareLimits | None = None,
    more: Sequence[str] = (),
) -> Order:
    """`limits`: on its parts of GPUs; `more`: further names of the machine's /etc that it sees. Raises
    KernelRefused."""
    limits = limits or ShareLimits()
    scratch = record.folder / "scratch"
    mark = root.mark(spec.id)
    able = Limit.SCRATCH in host.limits
    held = able and scratch_quota.set_limit(record.folder, spec.id, spec.scratch, new=not record.begun)
    runtime_files.write_files(record.folder, spec)
    cwd = "/"
    user: user_switch.User | None = None
    wrapped = bubblewrap.BubblewrapCommand(list(spec.command), [], [])
    if host.sandbox:
        _require_volume_mounts(spec)
        user = kernel_user(record, spec)
        command = [*_terminal_control(spec), *spec.command]
        wrapped = bubblewrap.wrap_command(spec, record.folder, command, user, limits.binds, more)
    else:
        mounts.link_mounts(spec, scratch)
        cwd = str(_workdir(spec, scratch))
    return {
        "id": spec.id,
        "nonce": record.nonce,
        "folder": str(record.folder),
        "mark": mark,
        "argv": wrapped.before,
        "sources": wrapped.sources,
        "command": wrapped.after,
        "env": {
            **kernel_environment(spec, scratch, mark, sandboxed=host.sandbox),
            **runtime_files.file_variables(record.folder, spec, sandboxed=host.sandbox),
            **limits.env,
        },
        "user": user,
        "filter": seccomp.put_filter(root.path, record.folder, FILTER) if host.sandbox else "",
        "cwd": cwd,
        "signal": stop_signal(spec.stop_signal) or signal.SIGTERM,
        "grace": spec.stop_grace,
        "timeout": spec.timeout,
        "restart": spec.restart.policy,
        "restarts": spec.restart.max,
        "groups": cgroup.below(list(host.groups), spec.id),
        "scope": host.scope,
        "sandboxed": host.sandbox,
        "tty": spec.tty,
        "counted": not held,
        "home": str(mounts.HOME) if host.sandbox else str(scratch),
        "log_size": log.size,
        "log_files": log.files,
    }


def _require_volume_mounts(spec: KernelSpec) -> None:
    """Raises KernelRefused."""
    if spec.mounts and not bubblewrap.can_mount_volumes():
        why = "bubblewrap is too old to mount an opened folder (--bind-fd), which volumes need"
        raise KernelRefused(provider="process", kernel=spec.id, why=why)


def kernel_user(record: KernelRecord, spec: KernelSpec) -> user_switch.User | None:
    """Whom root becomes for it, and whom its files belong to; None for a provider that is not root.

    Raises KernelRefused, OSError.
    """
    if os.geteuid() != 0:
        return None
    if (why := _user_problem(spec)) or spec.uid is None:
        raise KernelRefused(provider="process", kernel=spec.id, why=why)
    groups = sorted({*spec.groups, *bubblewrap.device_groups(spec.devices)} - {spec.uid})
    os.chown(record.folder / "scratch", spec.uid, spec.uid)
    return {"uid": spec.uid, "gid": spec.uid, "groups": groups}


def _terminal_control(spec: KernelSpec) -> list[str]:
    """Inside the sandbox's session nobody controls the terminal: the command takes it in one of its own."""
    return [shutil.which("setsid", path=STANDARD_PATH) or "setsid", "-c"] if spec.tty else []


def _workdir(spec: KernelSpec, scratch: Path) -> Path:
    """Without a sandbox: below the scratch folder, made if need be; a mount's link is followed."""
    if not spec.workdir or spec.workdir.rstrip("/") == str(mounts.HOME):
        return scratch
    place = scratch / str(mounts.path_inside(spec.id, spec.workdir)).lstrip("/")
    place.mkdir(parents=True, exist_ok=True)
    return place


def interpreter_command() -> list[str]:
    """The interpreter without its site: what starts fastest and depends on no environment."""
    return [getattr(sys, "_base_executable", None) or sys.executable, "-I", "-S"]


@contextlib.contextmanager
def waiting_supervisor(kernel: str, unit: str, *, scope: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor that begins, and then waits for its order: an interpreter takes longer to begin than an
    order to be written. Without an order it ends. Raises ProviderUnavailable."""
    argv = [*interpreter_command(), "-c", _BOOT, PACKAGES, kernel]
    env = {"LANG": "C.UTF-8"}
    if scope:
        options = ["--quiet", "--collect", "--property=Delegate=yes", f"--unit={unit}"]
        program = shutil.which("systemd-run") or "systemd-run"
        argv = [program, "--user", "--scope", *options, "--", *argv]
        bus = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
        env |= {name: os.environ[name] for name in bus if name in os.environ}
        env["PATH"] = STANDARD_PATH
    try:
        keeper = subprocess.Popen(
            argv,
            env=env,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise ProviderUnavailable(provider="process", why=f"cannot start a supervisor: {error}") from error
    assert keeper.stdin is not None and keeper.stdout is not None
    with keeper.stdout:
        try:
            yield keeper
        finally:
            with contextlib.suppress(BrokenPipeError):
                keeper.stdin.close()
            keeper.wait()


def start_kernel(order: Order, keeper: subprocess.Popen[bytes]) -> str:
    """Give an order to a supervisor that waits for it, and hear its answer: `running`, `taken` or `gone`.

    Raises KernelRefused, ProviderUnavailable.
    """
    try:
        answer = _exchange(keeper, json.dumps(order).encode())
    except OSError as error:
        raise ProviderUnavailable(provider="process", why=f"cannot start a supervisor: {error}") from error
    if answer.get("state") == "refused":
        raise KernelRefused(provider="process", kernel=order["id"], why=answer.get("why", ""))
    return str(answer.get("state", "gone"))


def _exchange(keeper: subprocess.Popen[bytes], message: bytes) -> dict[str, Any]:
    assert keeper.stdin is not None and keeper.stdout is not None
    with contextlib.suppress(BrokenPipeError), keeper.stdin as orders:
        orders.write(message)
    line = _read_line(keeper.stdout)
    return json.loads(line) if line else {}


def _read_line(stream: IO[bytes]) -> bytes:
    # A server with a thousand connections has descriptors that select(2) cannot take.
    poller = select.poll()
    poller.register(stream, select.POLLIN)
    if not poller.poll(PATIENCE * 1000):
        return b""
    return stream.readline()
