"""The helper that becomes a command inside a kernel. Cheap imports only."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import sys
import termios
import warnings  # noqa: F401  os.execvpe wants it, when Python's own files are out of sight

from providers.process import cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NAMESPACES = ("mnt", "ipc", "uts", "pid")
NS_GET_USERNS = 0xB701
"""ioctl_ns(2): the user namespace that owns a namespace."""
PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24


def become(descriptor: int) -> NoReturn:
    """Read the order from the pipe until its end, then be that command.

    Exit codes: 127 not found, 126 cannot be run, 125 no order came.
    """
    with os.fdopen(descriptor, "rb") as stream:
        text = stream.read()
    if not text:
        sys.exit(125)
    order = json.loads(text)
    program = order["argv"][0]
    try:
        _enter(order)
    except OSError as error:
        _give_up(f"{error.filename or program}: {error.strerror}", 126)
    try:
        os.execvpe(program, order["argv"], order["env"])
    except FileNotFoundError:
        what = "file, or not what its first line names" if "/" in program else "program in its PATH"
        _give_up(f"{program}: the session has no such {what}", 127)
    except OSError as error:
        _give_up(f"{program}: cannot be executed: {error.strerror}", 126)


def _give_up(why: str, code: int) -> NoReturn:
    print(f"bai: {why}", file=sys.stderr, flush=True)
    os._exit(code)


def _enter(order: dict[str, Any]) -> None:
    if order["tty"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    cgroup.join(order["groups"])
    os.sched_setaffinity(0, order["affinity"])
    if order["inner"]:
        _enter_namespaces(order["inner"])
    else:
        os.chdir(order["cwd"])


def _enter_namespaces(pid: int) -> None:
    """Into the sandbox that holds `pid`; processes are only renumbered for children, so one is made."""
    libc = ctypes.CDLL(None, use_errno=True)
    power = _power_of(pid)
    folder = os.open(f"/proc/{pid}/cwd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for handle in _handles(pid):
        if libc.setns(handle, 0) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "entering the sandbox")
    os.fchdir(folder)
    child = os.fork()
    if child:
        _mirror(child)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for capability in range(64):
        if not power >> capability & 1:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def _power_of(pid: int) -> int:
    """The capabilities that a command in the kernel can have; root entering gets no more."""
    with open(f"/proc/{pid}/status", encoding="ascii") as stream:
        fields = dict(line.split(":", 1) for line in stream if ":" in line)
    return int(fields["CapBnd"], 16) & int(fields["CapPrm"], 16)


def _handles(pid: int) -> list[int]:
    """The namespaces to enter, in the order that works without root.

    First the user namespace that owns the others, which gives the right to enter them; last the process's
    own, which bubblewrap nests in that one to give the user its number back.
    """
    others = [_namespace(pid, name) for name in NAMESPACES]
    chain = [fcntl.ioctl(others[0], NS_GET_USERNS), *others, _namespace(pid, "user")]
    current = {os.stat(f"/proc/self/ns/{name}").st_ino for name in ("user", *NAMESPACES)}
    found: list[int] = []
    for handle in chain:
        inode = os.fstat(handle).st_ino
        if inode not in current:
            current.add(inode)
            found.append(handle)
    return found


def _namespace(pid: int, name: str) -> int:
    return os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


def _mirror(child: int) -> NoReturn:
    """Outlive the keyboard's signals, which are the command's to answer, and end as it ends."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(child, received))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(code if code >= 0 else 128 - code)
