"""The helper that becomes a command inside a kernel. Cheap imports only.

    bai ─ pipes or a terminal ─ helper, a process of the machine ─ its child, a process of the kernel

The kernel sees the child, and may hold hostile processes of the same user: until it is the command nobody
else can look into it or trace it, it has nothing open but its standard streams, and it reads nothing
of the kernel's files before it has the kernel's identity.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import sys
import termios
import warnings  # noqa: F401  os.execvpe wants it, when Python's own files are out of sight

from providers.machines import folder_view
from providers.process.linux import cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, TypedDict

    class Who(TypedDict):
        """`identity.Identity`."""

        uid: int
        gid: int
        inner_uid: int
        inner_gid: int
        groups: list[int]
        power: int
        bounding: int
        no_new_privs: bool

    class Order(TypedDict):
        """What to become. `process`: descriptor of the main process's folder in /proc; `filter`: in hex;
        `shown`: the program's name for messages; `files`: what to do with files in place of a program."""

        argv: list[str]
        shown: str
        env: dict[str, str]
        workdir: str
        groups: list[cgroup.Group]
        affinity: list[int]
        tty: bool
        process: int
        sandboxed: bool
        who: Who
        filter: str
        files: dict[str, Any] | None


FORWARDED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
"""Signals that are the command's. The helper begins with them blocked."""
NAMESPACES = ("mnt", "ipc", "uts", "pid")
NS_GET_USERNS = 0xB701
"""ioctl_ns(2): the user namespace that owns a namespace."""
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2
CAP_SETPCAP = 8
CAPABILITIES = 64
_CAPABILITY_VERSION = 0x20080522
_LAST_DESCRIPTOR = (1 << 31) - 1

_libc = ctypes.CDLL(None, use_errno=True)


def enter_and_exec(descriptor: int) -> NoReturn:
    """Read the order from the pipe until its end, then be that command.

    Exit codes: 127 not found, 126 cannot be run, 125 no order came.
    """
    _hide_from_others()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and so would the command.
    with os.fdopen(descriptor, "rb") as stream:
        text = stream.read()
    if not text:
        os._exit(125)
    order: Order = json.loads(text)
    program = order["shown"]
    try:
        _enter_kernel(order)
    except Exception as error:
        why = getattr(error, "strerror", None) or str(error)
        _give_up(f"{getattr(error, 'filename', None) or program}: {why}", 126)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        if order["files"] is not None:
            _serve_files(order["files"])
        os.execvpe(order["argv"][0], order["argv"], order["env"])
    except FileNotFoundError:
        what = "file, or not what its first line names" if "/" in program else "program in its PATH"
        _give_up(f"{program}: the session has no such {what}", 127)
    except Exception as error:
        _give_up(f"{program}: cannot be executed: {getattr(error, 'strerror', None) or error}", 126)


def _serve_files(asked: dict[str, Any]) -> NoReturn:
    """A folder, listed, or a file in it, from standard input. Links lead where they do for the kernel."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # A limit is an error, and no half of a file is left.
    try:
        folder = os.open(asked["path"], os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK)
        if asked["do"] == "list":
            answer = json.dumps(folder_view.list_folder(folder, asked["most"])).encode()
            while answer:
                answer = answer[os.write(1, answer) :]
        else:
            name = bytes.fromhex(asked["name"])
            folder_view.receive_file(folder, name, asked["size"], lambda size: os.read(0, size))
    except OSError as error:
        _give_up(error.strerror or str(error), 1)
    os._exit(0)


def _give_up(why: str, code: int) -> NoReturn:
    os.write(2, f"bai: {why}\n".encode(errors="replace"))
    os._exit(code)


def _prctl(option: int, *words: int) -> int:
    return int(_libc.prctl(option, *map(ctypes.c_ulong, (*words, *(0,) * (4 - len(words))))))


def _failed(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)


def _hide_from_others() -> None:
    """From other processes of the same user; a change of identity may undo it."""
    _prctl(PR_SET_DUMPABLE, 0)


def _enter_kernel(order: Order) -> None:
    who = order["who"]
    master = os.geteuid() == 0
    cgroup.join(order["groups"])
    os.sched_setaffinity(0, order["affinity"])
    if master:
        for stream in (0, 1, 2):
            os.fchown(stream, who["uid"], who["gid"])  # /dev/stdout can be opened by name.
        os.setgroups(who["groups"])
    # Python loads nothing more: its files may be the session's from here on.
    sys.meta_path.clear()
    if order["sandboxed"]:
        _enter_namespaces(order["process"])
    os.closerange(3, _LAST_DESCRIPTOR)
    if order["sandboxed"]:
        child = os.fork()  # Processes are only renumbered for children.
        if child:
            _relay_signals(child)
        os.setsid()
    if order["tty"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    _assume_identity(who, master)
    if order["sandboxed"]:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _change_folder(order["workdir"])
    _apply_filter(who, bytes.fromhex(order["filter"]))


def _enter_namespaces(process: int) -> None:
    for handle in _namespaces_of(process):
        if _libc.setns(handle, 0) != 0:
            raise _failed("entering the sandbox")
    _hide_from_others()


def _namespaces_of(process: int) -> list[int]:
    """The namespaces to enter, in the order that works without root.

    First the user namespace that owns the others, which gives the right to enter them; last the process's
    own, which bubblewrap nests in that one to give the user its number back.
    """
    others = [_open_namespace(process, name) for name in NAMESPACES]
    chain = [fcntl.ioctl(others[0], NS_GET_USERNS), *others, _open_namespace(process, "user")]
    current = {os.stat(f"/proc/self/ns/{name}").st_ino for name in ("user", *NAMESPACES)}
    found: list[int] = []
    for handle in chain:
        inode = os.fstat(handle).st_ino
        if inode not in current:
            current.add(inode)
            found.append(handle)
    return found


def _open_namespace(process: int, name: str) -> int:
    return os.open(f"ns/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)


def _assume_identity(who: Who, master: bool) -> None:
    """The main process's identity, and no more power than it has; not more than we have, either."""
    effective, permitted = _capabilities()
    for capability in range(CAPABILITIES):
        if not who["power"] >> capability & 1:
            _prctl(PR_CAPBSET_DROP, capability)
    kept = sum(1 << number for number in range(CAPABILITIES) if _prctl(PR_CAPBSET_READ, number) == 1)
    if effective >> CAP_SETPCAP & 1 and kept & ~who["power"]:
        raise PermissionError(1, "more power than the session has cannot be given up")
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    if master:
        os.setresgid(*(who["inner_gid"],) * 3)
        os.setresuid(*(who["inner_uid"],) * 3)
        permitted &= _capabilities()[1]
    _set_capabilities(permitted & who["power"])
    _hide_from_others()


def _capabilities() -> tuple[int, int]:
    """The effective and the permitted ones."""
    head, data = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if _libc.capget(head, data) != 0:
        raise _failed("capget")
    return data[0] | data[3] << 32, data[1] | data[4] << 32


def _set_capabilities(kept: int) -> None:
    low, high = kept & 0xFFFFFFFF, kept >> 32
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    if _libc.capset(head, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)) != 0:
        raise _failed("capset")


def _change_folder(workdir: str) -> None:
    """To the working directory, which the session may have put a link in place of.

    Nothing is open through which one could lead out; where it led is asked all the same (CVE-2024-21626).
    """
    os.chdir(workdir)
    if not os.getcwd().startswith("/"):
        raise PermissionError(1, "leads out of the session", workdir)


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _apply_filter(who: Who, rules: bytes) -> None:
    if (who["no_new_privs"] or rules) and _prctl(PR_SET_NO_NEW_PRIVS, 1) != 0:
        raise _failed("no_new_privs")
    if rules:
        program = _Program(len(rules) // 8, rules)
        if _libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(program), 0, 0) != 0:
            raise _failed("the filter of system calls")


def _relay_signals(child: int) -> NoReturn:
    """Pass signals on and end as the command ends."""
    os.closerange(0, 3)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda received, _: _interrupt(child, received))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(child, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def _interrupt(child: int, number: int) -> None:
    """As a keyboard does: all of the command's group."""
    try:
        os.killpg(child, number)
    except ProcessLookupError:
        os.kill(child, number)
