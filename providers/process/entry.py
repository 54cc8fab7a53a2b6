"""Running one more command inside a kernel: in its control groups, its namespaces and its environment.

A small helper process (`enter.py`) joins the groups and becomes the command, so that bai itself never does.
It is told what to do through a pipe, secrets of the kernel's environment included; its standard streams are
the caller's, or a terminal of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from typing import IO

from providers.process import procfs, terminal, watch
from providers.process.launch import PACKAGES, python
from providers.process.records import Record
from providers.signals import handling
from providers.terminal import outside
from schemas.errors import NotRunning, ProviderError

_BOOT = (
    "import sys;sys.path.append(sys.argv[1]);"
    "from providers.process.enter import become;become(int(sys.argv[2]))"
)


def execute(record: Record, argv: tuple[str, ...], *, stdin: IO[bytes] | None, tty: bool) -> int:
    """The command's exit code; 128 + n for signal n. Raises ProviderError when the kernel does not run."""
    order = _checked_order(record, argv, tty)
    source, sink = os.pipe2(os.O_CLOEXEC)
    helper = _helper(source)
    try:
        run = terminal.run if tty else _run
        return run(helper, source, lambda: _tell(sink, order), stdin)
    finally:
        os.close(source)


def begin(record: Record, argv: tuple[str, ...], *, feed: bool = False) -> subprocess.Popen[bytes]:
    """Start a command whose output and errors are pipes, and its input too with `feed`.

    Raises as `execute`.
    """
    order = _checked_order(record, argv, False)
    source, sink = os.pipe2(os.O_CLOEXEC)
    try:
        process = subprocess.Popen(
            _helper(source),
            env={},
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(source,),
        )
        _tell(sink, order)
    finally:
        os.close(source)
    return process


def _helper(source: int) -> list[str]:
    return [*python(), "-c", _BOOT, PACKAGES, str(source)]


def _checked_order(record: Record, argv: tuple[str, ...], tty: bool) -> bytes:
    pid = watch.main_pid(record.state) if record.alive else None
    if pid is None:
        raise NotRunning(provider="process", kernel=record.id)
    if not argv or any("\0" in word for word in argv):
        raise ProviderError(provider="process", why="there is no command to run, or it holds a NUL byte")
    return json.dumps(_order(record, pid, argv, tty)).encode()


def _order(record: Record, pid: int, argv: tuple[str, ...], tty: bool) -> dict[str, object]:
    env = dict(_pair(entry) for entry in procfs.environment(pid) if b"=" in entry)
    if tty and "TERM" in os.environ:
        env.setdefault("TERM", os.environ["TERM"])
    inner = pid if record.state.get("inner") else 0
    return {
        "argv": list(argv),
        "env": env,
        "inner": inner,
        "cwd": "" if inner else os.readlink(f"/proc/{pid}/cwd"),
        "groups": record.groups,
        "affinity": sorted(os.sched_getaffinity(pid)),
        "tty": tty,
    }


def _pair(entry: bytes) -> tuple[str, str]:
    name, _, value = entry.partition(b"=")
    return os.fsdecode(name), os.fsdecode(value)


def _tell(sink: int, order: bytes) -> None:
    with os.fdopen(sink, "wb") as stream:
        try:
            stream.write(order)
            stream.flush()
        except BrokenPipeError:
            pass


def _run(helper: list[str], source: int, tell: Callable[[], None], stdin: IO[bytes] | None) -> int:
    text = None if stdin is None or outside(stdin) is not None else stdin.read()
    channel = subprocess.PIPE if text is not None else stdin
    with handling([signal.SIGINT], lambda *_: None):  # The keyboard's reach the command by themselves.
        process = subprocess.Popen(helper, env={}, stdin=channel, pass_fds=(source,))
        tell()
        process.communicate(text)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode
