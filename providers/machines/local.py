"""This machine as a `Machine`: no connection, the same calls."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from providers.machines.base import Done, Process, Stream
from schemas.problems.errors.node import CommandTimedOut, MachineRefused, TargetRefused

DIAL = 20.0
"""Seconds for a local socket to accept."""
CHUNK = 1 << 16
KEPT_ERRORS = 1 << 16
"""Bytes of standard error that are remembered."""


class LocalMachine:
    """The machine that runs bai, under the node's name."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Done:
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        except OSError as error:
            # Folders of PATH that may not be looked into say the same as a file that may not be run.
            code = 126 if isinstance(error, PermissionError) and shutil.which(argv[0], os.F_OK) else 127
            return Done(code, b"", f"{argv[0]}: {error.strerror}\n".encode())
        try:
            out, err = child.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            raise CommandTimedOut(node=self._name, command=argv[0], seconds=f"{timeout:g}") from None
        finally:
            if child.returncode is None:
                _end_command(child)
        return Done(_exit_code(child.returncode), out, err)

    def start(self, argv: Sequence[str], *, tty: bool = False) -> Process:
        try:
            return _TtyProcess(argv) if tty else _PipeProcess(argv)
        except OSError as error:
            raise MachineRefused(node=self._name, what=f"to run {argv[0]}", why=_reason(error)) from error

    def put(self, path: str, content: bytes, *, mode: int = 0o600) -> None:
        folder, draft = Path(path).parent, ""
        try:
            _make_private_folders(folder)
            descriptor, draft = tempfile.mkstemp(prefix=".bai-", dir=folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
            os.replace(draft, path)
        except OSError as error:
            raise MachineRefused(node=self._name, what=f"to write {path}", why=_reason(error)) from error
        finally:
            if draft:
                Path(draft).unlink(missing_ok=True)

    def get(self, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise MachineRefused(node=self._name, what=f"to read {path}", why=_reason(error)) from error

    def dial(self, target: str | tuple[str, int]) -> Stream:
        try:
            if not isinstance(target, str):
                connection = socket.create_connection(target, timeout=DIAL)
            else:
                connection = _dial_unix(target)
        except OSError as error:
            where = target if isinstance(target, str) else f"{target[0]}:{target[1]}"
            hint = "may this user use it?" if isinstance(error, PermissionError) else ""
            raise TargetRefused(node=self._name, target=where, why=_reason(error), hint=hint) from error
        connection.settimeout(None)
        return connection

    def close(self) -> None:
        return None


def _dial_unix(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(DIAL)
    try:
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _end_command(child: subprocess.Popen[bytes]) -> None:
    """End a command with all that it started, which may hold its pipes."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _make_private_folders(folder: Path) -> None:
    """Every folder that is made here is its owner's alone."""
    if not folder.exists():
        _make_private_folders(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)


class _PipeProcess:
    def __init__(self, argv: Sequence[str]) -> None:
        self._child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._errors = bytearray()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._child.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            while data := self._child.stderr.read(CHUNK):
                self._errors += data
                del self._errors[:-KEPT_ERRORS]

    def write(self, data: bytes) -> None:
        assert self._child.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self._child.stdin.write(view) :]

    def close_stdin(self) -> None:
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()

    def read(self) -> Iterator[bytes]:
        assert self._child.stdout is not None
        while data := self._child.stdout.read(CHUNK):
            yield data

    def errors(self) -> bytes:
        return bytes(self._errors)

    def resize(self, rows: int, columns: int) -> None:
        return None

    def wait(self) -> int:
        code = _exit_code(self._child.wait())
        self._listener.join(timeout=1.0)
        return code

    def close(self) -> None:
        _end_command(self._child)


class _TtyProcess:
    """A process on a terminal of its own, which is its controlling one."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._master, slave = pty.openpty()
        try:
            # The first terminal that the leader of a session opens becomes the session's.
            opening = ("sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(slave), *argv)
            self._child = subprocess.Popen(opening, stdin=slave, start_new_session=True)
        except BaseException:
            os.close(self._master)
            raise
        finally:
            os.close(slave)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._master, view) :]

    def close_stdin(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._master, b"\x04")

    def read(self) -> Iterator[bytes]:
        with contextlib.suppress(OSError):  # EIO is how a terminal says that its last process ended
            while data := os.read(self._master, CHUNK):
                yield data

    def errors(self) -> bytes:
        return b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self) -> int:
        return _exit_code(self._child.wait())

    def close(self) -> None:
        """With its terminal gone it is hung up."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1
        _end_command(self._child)


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code
