"""Files in and out of a kernel, as tar streams made and unpacked by `tar` in the kernel's own view.

What runs is entered. What has ended is seen once more through a sandbox like the one it had, so that a link
in its files leads no further than it did for the kernel itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from providers.machines.files import tar_command
from providers.process import launch
from providers.process.interaction import execute
from providers.process.launch import STANDARD_PATH
from providers.process.sandbox import bubblewrap, mounts
from schemas.problems.errors.kernel import CopyRefused

if TYPE_CHECKING:
    from providers.base import Mount
    from providers.process.interaction.execute import ExecTarget
    from providers.process.sandbox.sandbox_init import Box
    from providers.process.supervision.records import KernelRecord

CHUNK = 1 << 16
_BOOT = (
    "import sys;sys.path.append(sys.argv[1]);"
    "from providers.process.sandbox.sandbox_init import main;main(int(sys.argv[2]))"
)
_ENVIRONMENT = {"PATH": STANDARD_PATH, "LANG": "C.UTF-8"}
"""Of what packs and unpacks: the system's `tar`, and no options of the session's."""


def copy_out(target: ExecTarget, path: str, *, sandboxed: bool) -> Iterator[bytes]:
    """A tar stream of a file or folder; its members are named from the path's last part on.

    Raises CopyRefused, with the first chunk or later.
    """
    record = target.record
    argv = tar_command.pack_command(absolute_path(record, path, sandboxed))
    process = _begin_tar(target, argv, sandboxed=sandboxed, feed=False)
    errors = ErrorReader(process)
    try:
        assert process.stdout is not None
        while data := process.stdout.read1(CHUNK):  # type: ignore[attr-defined]
            yield data
        if process.wait() != 0:
            raise CopyRefused(provider="process", kernel=record.id, path=path, why=errors.first_complaint())
    finally:
        end_process(process)


def copy_in(target: ExecTarget, path: str, archive: Iterator[bytes], *, sandboxed: bool) -> None:
    """Unpack in the existing folder `path`; what is unpacked belongs to the kernel's user.

    Raises CopyRefused.
    """
    record = target.record
    argv = tar_command.unpack_command(absolute_path(record, path, sandboxed))
    process = _begin_tar(target, argv, sandboxed=sandboxed, feed=True)
    errors = ErrorReader(process)
    try:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            for data in archive:
                process.stdin.write(data)
            process.stdin.close()
        assert process.stdout is not None
        process.stdout.read()
        if process.wait() != 0:
            raise CopyRefused(provider="process", kernel=record.id, path=path, why=errors.first_complaint())
    finally:
        end_process(process)


def absolute_path(record: KernelRecord, path: str, sandboxed: bool) -> str:
    """Relative paths begin in the working directory. Raises CopyRefused."""
    if "\0" in path:
        raise CopyRefused(provider="process", kernel=record.id, path=repr(path), why="a NUL byte is no name")
    start = execute.workdir(record, sandboxed=sandboxed)
    inside = path == str(mounts.HOME) or path.startswith(f"{mounts.HOME}/")
    if inside and not sandboxed:
        return f"{record.folder / 'scratch'}/{execute.below_home(path)}"
    return posixpath.join(start, path)


def _begin_tar(
    target: ExecTarget, argv: tuple[str, ...], *, sandboxed: bool, feed: bool
) -> subprocess.Popen[bytes]:
    record = target.record
    if record.runs:
        return execute.begin_exec(target, argv, _ENVIRONMENT, feed=feed)
    if not sandboxed:
        return _start_piped(argv, feed=feed, cwd=record.folder / "scratch")
    bare = replace(record.spec, devices=(), workdir="", mounts=_present_mounts(record))
    user = launch.kernel_user(record, record.spec)
    wrapped = bubblewrap.wrap_command(bare, record.folder, list(argv), user)
    box: Box = {
        "argv": wrapped.before,
        "sources": wrapped.sources,
        "command": wrapped.after,
        "env": _ENVIRONMENT,
        "user": user,
        "filter": "",
    }
    source, sink = os.pipe2(os.O_CLOEXEC)
    with open(sink, "wb") as stream:
        try:
            words = (*launch.interpreter_command(), "-c", _BOOT, launch.PACKAGES, str(source))
            process = _start_piped(words, feed=feed, cwd=Path("/"), pass_fds=(source,))
        finally:
            os.close(source)
        with contextlib.suppress(BrokenPipeError):
            stream.write(json.dumps(box).encode())
            stream.flush()
    return process


def _start_piped(
    argv: Sequence[str], *, feed: bool, cwd: Path, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=_ENVIRONMENT,
        stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=pass_fds,
    )


def _present_mounts(record: KernelRecord) -> tuple[Mount, ...]:
    """A volume may be gone since the kernel ended."""
    return tuple(mount for mount in record.spec.mounts if Path(mount.source).is_dir())


class ErrorReader:
    """Reads what a command complains about, so that it never waits to be heard."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._text = b""
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        read: Callable[[int], bytes] = self._process.stderr.read1  # type: ignore[union-attr]
        with contextlib.suppress(OSError, ValueError):
            while data := read(CHUNK):
                self._text = (self._text + data)[: tar_command.LONGEST_COMPLAINT]

    def first_complaint(self) -> str:
        """Its first complaint, or its exit code."""
        self._thread.join(timeout=10)
        return tar_command.first_complaint(self._text, self._process.returncode)


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Nothing of it stays: who stops reading early ends it."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
