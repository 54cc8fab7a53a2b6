"""Runs command lines of bai in forks of one process that has imported it: what new processes would import
again and again is imported once, and all else is as a new process has it.

`fork_client.py` starts it and asks it. Whatever a command imported is imported here before the next one is
forked, so that nobody has to list it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TextIO

LENGTH = struct.Struct("!I")
STATUS = struct.Struct("!i")
NOT_HERE = b"?"
"""Said by a child whose environment would have changed what was imported."""
MOST_WORDS = 1 << 16
IMPORT = "import "
"""How a message over `control` begins that names modules for those that come next, without a connection."""
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Recording(os._Environ):  # type: ignore[type-arg]
    """The environment, which notes the names that modules ask for while they are imported."""

    asked: ClassVar[set[str]] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return str(super().__getitem__(name))

    def __iter__(self) -> Iterator[str]:
        for name in super().__iter__():
            self.asked.add(name)
            yield name


@dataclass(frozen=True)
class _Child:
    pid: int
    connection: int
    imported: int
    """A file in memory, into which it writes the names of its modules before it ends."""


class ForkServer:
    """One request after another comes over `control`, as a connection that is handed on to a fork."""

    def __init__(self, control: socket.socket) -> None:
        self.pid = os.getpid()
        self._control = control
        self._began_with = dict(os.environ)
        self._children: dict[int, _Child] = {}
        self._poll = select.poll()

    def serve(self) -> _Child | None:
        """Until nobody is there to ask; gives a child in each fork, which has its request to read."""
        self._poll.register(self._control.fileno(), select.POLLIN)
        while True:
            ready, _ = self._poll.poll()[0]  # of several, another may mean a file that the first one closes
            if ready == self._control.fileno():
                if not (child := self._accept()):
                    return None
                if not child.pid:
                    return child
            elif ready in self._children:
                self._reap(ready)
            else:
                self._abandon(ready)

    def import_all(self, names: list[str]) -> None:
        """Those that cannot be imported here stay with the commands that know how."""
        os.environ.__class__ = _Recording
        for name in names:
            if name not in sys.modules:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        os.environ.__class__ = os._Environ
        gc.freeze()

    def is_as_imported(self, environment: dict[str, str]) -> bool:
        """Modules that read the environment when they are imported would read the same there."""
        began = self._began_with
        return all(began.get(name) == environment.get(name) for name in _Recording.asked)

    def set_by_the_interpreter(self) -> dict[str, str]:
        """In a locale without letters, Python gives itself another one, and all that it starts."""
        return {name: value for name, value in self._began_with.items() if name == "LC_CTYPE"}

    def kill_all(self) -> None:
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)

    def _accept(self) -> _Child | None:
        said, received, _, _ = socket.recv_fds(self._control, MOST_WORDS, 1)
        while said.startswith(IMPORT.encode()):
            self.import_all(said.decode().split()[1:])
            said, received, _, _ = socket.recv_fds(self._control, MOST_WORDS, 1)
        if not said:
            return None
        imported = os.memfd_create("imported")
        child = _Child(os.fork(), received[0], imported)
        if child.pid:
            ends = os.pidfd_open(child.pid)
            self._children[ends] = child
            self._poll.register(ends, select.POLLIN)
            self._poll.register(child.connection, select.POLLRDHUP)
        return child

    def _reap(self, ready: int) -> None:
        child = self._children.pop(ready)
        _, status = os.waitpid(child.pid, 0)
        with contextlib.suppress(KeyError):
            self._poll.unregister(child.connection)
        self._poll.unregister(ready)
        with contextlib.suppress(OSError):
            os.write(child.connection, STATUS.pack(os.waitstatus_to_exitcode(status)))
        names = os.pread(child.imported, 1 << 24, 0).decode().split()
        for each in (ready, child.connection, child.imported):
            os.close(each)
        self.import_all(names)

    def _abandon(self, connection: int) -> None:
        """Who asked has gone, or no longer wants it."""
        self._poll.unregister(connection)
        for child in self._children.values():
            if child.connection == connection:
                os.kill(child.pid, signal.SIGKILL)


def _receive(connection: int) -> tuple[dict[str, Any], list[int]]:
    with socket.socket(fileno=connection) as asked:
        head, files, _, _ = socket.recv_fds(asked, LENGTH.size, 3)
        left = LENGTH.unpack(head)[0]
        parts = []
        while left and (part := asked.recv(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        asked.detach()
    return json.loads(b"".join(parts)), files


def _tell_handle(connection: int) -> None:
    """Who asked for a command that stays gets its number, and a handle that means no other process."""
    handle = os.pidfd_open(os.getpid())
    with socket.socket(fileno=connection) as asked:
        socket.send_fds(asked, [STATUS.pack(os.getpid())], [handle])
        asked.detach()


def _become(request: dict[str, Any], files: list[int], child: _Child, server: ForkServer) -> None:
    """What a new process is given, and nothing of this one's."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, child.imported)
    os.closerange(child.imported + 1, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(server.set_by_the_interpreter() | request["environment"])
    time.tzset()
    tempfile.tempdir = None
    random.seed()
    os.chdir(request["folder"])
    for number, value in request["limits"]:
        resource.setrlimit(number, tuple(value))
    sys.argv = request["words"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    sys.stdin = _stream(0, sys.stdin)
    sys.stdout = _stream(1, sys.stdout)
    sys.stderr = _stream(2, sys.stderr)
    gc.enable()


def _stream(number: int, like: TextIO) -> io.TextIOWrapper:
    """As Python opens it, which has decided on encoding and buffers by the same environment."""
    assert isinstance(like, io.TextIOWrapper)
    buffered = not (number and like.write_through)
    raw = open(number, "wb" if number else "rb", -1 if buffered else 0, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(
        raw,
        encoding=like.encoding,
        errors=like.errors,
        newline="\n" if number else None,
        line_buffering=buffered and (number == 2 or raw.isatty()),
        write_through=not buffered,
    )


def _exit_code(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _run(program: Callable[[], None]) -> int:
    """The exit code with which the interpreter would end."""
    try:
        program()
    except SystemExit as error:
        return _exit_code(error)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _carry_out(child: _Child, server: ForkServer, program: Callable[[], None]) -> NoReturn:
    """The life of a fork; it ends as a process of Python does, but leaves its memory to the kernel."""
    known = set(sys.modules)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server.pid:
        os._exit(1)
    request, files = _receive(child.connection)
    if not server.is_as_imported(request["environment"]):
        os.write(child.connection, NOT_HERE)
        os._exit(0)
    if request.get("stays"):
        _tell_handle(child.connection)
    _become(request, files, child, server)
    if first := request.get("first"):
        module, _, name = first.partition(":")
        getattr(importlib.import_module(module), name)()
    code = _run(program)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    with contextlib.suppress(OSError):
        os.pwrite(child.imported, "\n".join(name for name in sys.modules if name not in known).encode(), 0)
    os._exit(code)


def main() -> None:
    gc.disable()
    sysconfig.get_config_vars()  # reads HOME for the folder of a user's own packages; no command asks for it
    importlib.import_module("wsgiref.handlers")  # keeps the environment for servers that no command has
    server = ForkServer(socket.socket(fileno=int(sys.argv[1])))
    # As `main` of bai sets it; who asks for something else is sent elsewhere.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    server.import_all([sys.argv[2]])
    program = importlib.import_module(sys.argv[2])
    server.import_all([module for module, _ in getattr(program, "COMMANDS", {}).values()])
    if child := server.serve():
        _carry_out(child, server, program.main)
    server.kill_all()


if __name__ == "__main__":
    main()
