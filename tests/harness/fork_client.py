"""Asks a fork server (`fork_server.py`), and waits for what its forks say."""

from __future__ import annotations

import atexit
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from tests.harness.fork_server import IMPORT, LENGTH, NOT_HERE, STATUS

ROOT = Path(__file__).resolve().parents[2]
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
"""numpy starts some when it is imported."""


class ForkClient:
    """One server, which ends with this process. `program` is a module with a `main`."""

    def __init__(self, environment: Mapping[str, str], program: str = "bai.cli.main") -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.fork_server", str(theirs.fileno()), program],
                cwd=ROOT,
                env={**environment, **_NO_THREADS},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._imported: set[str] = set()
        atexit.register(self.close)

    def lives(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        self._control.close()
        self.process.wait()

    def hand_on(self, connection: socket.socket) -> None:
        """Whoever holds its other end may ask for one command."""
        with suppress(ConnectionError):
            socket.send_fds(self._control, [b"+"], [connection.fileno()])

    def import_first(self, modules: Sequence[str]) -> None:
        """Commands that come after this find them imported."""
        if new := [name for name in modules if name not in self._imported]:
            self._imported.update(new)
            self._control.send(f"{IMPORT}{' '.join(new)}".encode())

    def start(self, request: Mapping[str, Any], files: tuple[Any, Any, Any]) -> Started | None:
        """The same for a command that stays; `files` are open ones, and no pipes."""
        with ExitStack() as stack:
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            with theirs:
                self.hand_on(theirs)
            with suppress(ConnectionError):
                _Call(request["words"], ours, stack).ask({**request, "stays": True}, files)
            said, handles, _, _ = socket.recv_fds(ours, STATUS.size, 1)
            if said.startswith(NOT_HERE):  # the exit code of the child may have come as well
                return None
            if len(said) != STATUS.size or not handles:
                raise RuntimeError(f"the fork server ended: {' '.join(request['words'])}")
            stack.pop_all()
            return Started(STATUS.unpack(said)[0], handles[0], ours, request["words"])

    def run(
        self, request: Mapping[str, Any], files: tuple[Any, Any, Any], timeout: float
    ) -> subprocess.CompletedProcess[str] | None:
        """None where the request asks for what only a new process gives."""
        with ExitStack() as stack:
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            with theirs:
                self.hand_on(theirs)
            call = _Call(request["words"], ours, stack)
            with suppress(ConnectionError):  # what came back then says no exit code
                call.ask(request, files)
            return call.finish(timeout)


class Started:
    """A command that stays until it is told to end, as `subprocess.Popen` has it; it ends with ours."""

    def __init__(self, pid: int, handle: int, connection: socket.socket, words: list[str]) -> None:
        self.pid, self.args = pid, words
        self.returncode: int | None = None
        self._handle, self._connection = handle, connection

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            said = self._connection.recv(STATUS.size, socket.MSG_WAITALL)
            if len(said) != STATUS.size:
                raise RuntimeError(f"the fork server ended: {' '.join(self.args)}")
            self.returncode = int(STATUS.unpack(said)[0])
            self._connection.close()
            os.close(self._handle)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _part(file: int) -> bytes:
    try:
        return os.read(file, 1 << 16)
    except ConnectionError:
        return b""


class _Call:
    """One command: its request, and what comes back."""

    def __init__(self, words: list[str], connection: socket.socket, stack: ExitStack) -> None:
        self._words = words
        self._connection = connection
        self._stack = stack
        self._said: dict[int, bytearray] = {}
        """What comes from the connection and from each pipe, by our ends."""
        self._pipes: list[int | None] = []

    def ask(self, request: Mapping[str, Any], files: tuple[Any, Any, Any]) -> None:
        text = json.dumps(request).encode()
        with ExitStack() as handed:
            given: list[int] = []
            for number, file in enumerate(files):
                given.append(given[1] if file == subprocess.STDOUT else self._opened(number, file, handed))
            socket.send_fds(self._connection, [LENGTH.pack(len(text))], given)
            self._connection.sendall(text)

    def _opened(self, number: int, file: int | IO[Any] | None, handed: ExitStack) -> int:
        """The child's end; of a pipe, ours is remembered."""
        ours = None
        if file == subprocess.PIPE:
            ours, theirs = os.pipe()
            self._stack.callback(os.close, ours)
            handed.callback(os.close, theirs)
            self._said[ours] = bytearray()
        elif file == subprocess.DEVNULL:
            theirs = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            handed.callback(os.close, theirs)
        elif isinstance(file, int):
            theirs = file
        else:
            theirs = number if file is None else file.fileno()
        if number:
            self._pipes.append(ours)
        return theirs

    def finish(self, timeout: float) -> subprocess.CompletedProcess[str] | None:
        connection = self._connection.fileno()
        self._said[connection] = bytearray()
        if not self._read(set(self._said), timeout):
            self._connection.shutdown(socket.SHUT_WR)  # the server kills it
            self._read({connection}, timeout)
            raise subprocess.TimeoutExpired(self._words, timeout, *map(self._bytes, self._pipes))
        answer = bytes(self._said[connection])
        if answer.startswith(NOT_HERE):
            return None
        if len(answer) != STATUS.size:
            raise RuntimeError(f"the fork server ended: {' '.join(self._words)}")
        out, err = [*map(self._text, self._pipes), None][:2]
        return subprocess.CompletedProcess(self._words, STATUS.unpack(answer)[0], out, err)

    def _read(self, files: set[int], timeout: float) -> bool:
        """Until all of them have ended; False when time is over."""
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for file in files:
                selector.register(file, selectors.EVENT_READ)
            while selector.get_map():
                if (left := deadline - time.monotonic()) <= 0:
                    return False
                for key, _ in selector.select(left):
                    part = _part(key.fd)
                    self._said[key.fd] += part
                    if not part:
                        selector.unregister(key.fd)
        return True

    def _bytes(self, pipe: int | None) -> bytes | None:
        return None if pipe is None else bytes(self._said[pipe])

    def _text(self, pipe: int | None) -> str | None:
        said = self._bytes(pipe)
        return None if said is None else said.decode().replace("\r\n", "\n").replace("\r", "\n")
