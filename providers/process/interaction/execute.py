"""Running one more command inside a kernel: in its control groups, its namespaces, its environment, and with
the identity of its main process.

A small helper process (`enter.py`) joins the groups and becomes the command, so that bai itself never does.
It is told what to do through a pipe, secrets of the kernel's environment included. Its standard streams are
pipes, or a terminal of its own: nothing that is the caller's reaches the kernel.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import posixpath
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Any

from providers.process.interaction import interpreter, relay, terminal
from providers.process.interaction.enter import FORWARDED
from providers.process.launch import PACKAGES, interpreter_command
from providers.process.sandbox import mounts
from providers.process.supervision import kernel_process
from schemas.problems.errors.provider import ProviderError
from schemas.problems.text import printable

if TYPE_CHECKING:
    from providers.machines.remote_terminal import RemoteTerminal
    from providers.process.supervision.records import KernelRecord

_BOOT = (
    "import signal,sys;signal.signal(2,signal.SIG_DFL);sys.path.append(sys.argv[1]);"
    "from providers.process.interaction.enter import enter_and_exec;enter_and_exec(int(sys.argv[2]))"
)


@dataclass(frozen=True, slots=True)
class ExecTarget:
    """A kernel to enter: its record, the way to read it again, whether kernels here have a sandbox."""

    record: KernelRecord
    reread: Callable[[], KernelRecord]
    is_sandboxed: Callable[[], bool]


def execute(target: ExecTarget, argv: tuple[str, ...], *, stdin: IO[bytes] | None, tty: bool) -> int:
    """The command's exit code; 128 + n for signal n.

    Raises NotRunning when the kernel does not run, ProviderError when it cannot be entered.
    """
    with _prepared_helper(target, argv, tty=tty) as start:
        if tty:
            return terminal.run_on_terminal(lambda end: start(stdin=end, stdout=end, stderr=end), stdin)
        pipe = subprocess.PIPE
        return relay.run_with_pipes(lambda errors: start(stdin=pipe, stdout=pipe, stderr=errors), stdin)


def open_terminal(target: ExecTarget, argv: tuple[str, ...], size: tuple[int, int]) -> RemoteTerminal:
    """Raises as `execute`."""
    with _prepared_helper(target, argv, tty=True) as start:
        return terminal.open_on_terminal(lambda end: start(stdin=end, stdout=end, stderr=end), size)


def begin_exec(
    target: ExecTarget, argv: tuple[str, ...], env: Mapping[str, str], *, feed: bool = False
) -> subprocess.Popen[bytes]:
    """Start a command with exactly this environment, whose output and errors are pipes, and its input too
    with `feed`.

    Raises as `execute`.
    """
    pipe = subprocess.PIPE
    with _prepared_helper(target, argv, tty=False, env=env) as start:
        return start(stdin=pipe if feed else subprocess.DEVNULL, stdout=pipe, stderr=pipe)


def begin_files(target: ExecTarget, order: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Have the helper itself do something with the kernel's files, which needs no program: what it is given
    and what it answers go through pipes. Raises as `execute`."""
    pipe = subprocess.PIPE
    with _prepared_helper(target, ("files",), tty=False, env={}, files=order) as start:
        return start(stdin=pipe, stdout=pipe, stderr=pipe)


def workdir(record: KernelRecord, *, sandboxed: bool) -> str:
    """Where its commands start, as they see it."""
    if sandboxed:
        return posixpath.join(mounts.HOME, record.spec.workdir)
    scratch = str(record.folder / "scratch")
    return f"{scratch}/{below_home(record.spec.workdir)}".rstrip("/")


def below_home(path: str) -> str:
    """Without a sandbox the scratch folder stands for the kernel's home."""
    return path.removeprefix(str(mounts.HOME)).lstrip("/")


@contextlib.contextmanager
def _prepared_helper(
    target: ExecTarget, argv: tuple[str, ...], *, tty: bool, env: Mapping[str, str] | None = None,
    files: Mapping[str, Any] | None = None,
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:  # fmt: skip
    """A function that starts the helper with the streams it is given."""
    if not argv or any("\0" in word for word in argv):
        raise ProviderError(provider="process", why="there is no command to run, or it holds a NUL byte")
    with kernel_process.hold_main_process(target.record, target.reread, target.is_sandboxed) as main:
        given = dict(main.env if env is None else env)
        if tty and "TERM" in os.environ:
            given.setdefault("TERM", os.environ["TERM"])
        order = {
            "argv": list(argv),
            "shown": printable(argv[0]),
            "env": given,
            "workdir": workdir(target.record, sandboxed=main.sandboxed),
            "groups": target.record.groups,
            "affinity": list(main.cpus),
            "tty": tty,
            "process": main.handle,
            "sandboxed": main.sandboxed,
            "who": asdict(main.identity),
            "filter": main.filter.hex(),
            "files": files,
        }
        yield functools.partial(_start_helper, order, main.handle)


def _start_helper(
    order: Mapping[str, Any], handle: int, stdin: int, stdout: int, stderr: int
) -> subprocess.Popen[bytes]:
    program, *options = interpreter_command()
    copy = interpreter.sealed_copy(program)
    source, sink = os.pipe2(os.O_CLOEXEC)
    # Whoever passes one on to the helper may be earlier than its handlers: it waits for them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    try:
        process = subprocess.Popen(
            [program, *options, "-c", _BOOT, PACKAGES, str(source)],
            executable=f"/proc/self/fd/{copy}",
            env=interpreter.environment(),
            cwd="/",
            start_new_session=True,
            pass_fds=(copy, source, handle),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
    except BaseException:
        os.close(sink)
        raise
    finally:
        os.close(copy)
        os.close(source)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with open(sink, "wb", buffering=0) as stream, contextlib.suppress(BrokenPipeError):
        data = memoryview(json.dumps(order).encode())
        while data:
            data = data[stream.write(data) :]
    return process
