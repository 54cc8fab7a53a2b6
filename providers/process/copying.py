"""Files in and out of a kernel, as tar streams made and unpacked by `tar` in the kernel's own view.

What runs is entered. What has ended is seen once more through a sandbox like the one it had, so that a link
in its files leads no further than it did for the kernel itself.
"""

from __future__ import annotations

import contextlib
import posixpath
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from providers.base import Mount
from providers.process import entry, given, mounts, sandbox
from providers.process.launch import STANDARD_PATH
from providers.process.records import Record
from schemas.errors import CopyRefused

CHUNK = 1 << 16
_SAID = 4000
"""Most bytes of an error message that are kept."""


def copy_out(record: Record, path: str, *, sandboxed: bool) -> Iterator[bytes]:
    """A tar stream of a file or folder; its members are named from the path's last part on.

    Raises CopyRefused, with the first chunk or later.
    """
    folder, name = split(_absolute(record, path, sandboxed))
    argv = ("tar", "-C", folder, "-cf", "-", "--", name)
    process = _begin(record, argv, sandboxed=sandboxed, feed=False)
    errors = _Errors(process)
    try:
        assert process.stdout is not None
        while data := process.stdout.read1(CHUNK):  # type: ignore[attr-defined]
            yield data
        if process.wait() != 0:
            raise CopyRefused(provider="process", kernel=record.id, path=path, why=errors.said())
    finally:
        _end(process)


def copy_in(record: Record, path: str, archive: Iterator[bytes], *, sandboxed: bool) -> None:
    """Unpack in the existing folder `path`; what is unpacked belongs to the kernel's user.

    Raises CopyRefused.
    """
    argv = ("tar", "-C", _absolute(record, path, sandboxed), "--no-same-owner", "-xpf", "-")
    process = _begin(record, argv, sandboxed=sandboxed, feed=True)
    errors = _Errors(process)
    try:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            for data in archive:
                process.stdin.write(data)
            process.stdin.close()
        assert process.stdout is not None
        process.stdout.read()
        if process.wait() != 0:
            raise CopyRefused(provider="process", kernel=record.id, path=path, why=errors.said())
    finally:
        _end(process)


def split(path: str) -> tuple[str, str]:
    """The folder to go to, and what to pack there: `/a/b` → `/a`, `b`; `/a/b/` and `/a/b/.` → `/a/b`, `.`"""
    head, tail = posixpath.split(path)
    if tail in ("", ".", ".."):
        return path or "/", "."
    return head or "/", tail


def _absolute(record: Record, path: str, sandboxed: bool) -> str:
    """Relative paths begin in the working directory. Raises CopyRefused."""
    if "\0" in path:
        raise CopyRefused(provider="process", kernel=record.id, path=repr(path), why="a NUL byte is no name")
    if sandboxed:
        return posixpath.join(mounts.HOME, record.spec.workdir, path)
    scratch = str(record.folder / "scratch")
    workdir = f"{scratch}/{_below_home(record.spec.workdir)}".rstrip("/")
    inside = path == str(mounts.HOME) or path.startswith(f"{mounts.HOME}/")
    return f"{scratch}/{_below_home(path)}" if inside else posixpath.join(workdir, path)


def _below_home(path: str) -> str:
    """Without a sandbox the scratch folder stands for the kernel's home."""
    return path.removeprefix(str(mounts.HOME)).lstrip("/")


def _begin(record: Record, argv: tuple[str, ...], *, sandboxed: bool, feed: bool) -> subprocess.Popen[bytes]:
    if record.alive:
        return entry.begin(record, argv, feed=feed)
    command = list(argv)
    scratch = record.folder / "scratch"
    if sandboxed:
        bare = replace(record.spec, devices=(), workdir="", mounts=_present(record))
        command = sandbox.wrap(bare, scratch, command, given.folder(record.folder, record.spec))
    return subprocess.Popen(
        command,
        cwd=scratch,
        env={"PATH": STANDARD_PATH, "LANG": "C.UTF-8"},
        stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _present(record: Record) -> tuple[Mount, ...]:
    """A volume may be gone since the kernel ended."""
    return tuple(mount for mount in record.spec.mounts if Path(mount.source).is_dir())


class _Errors:
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
                self._text = (self._text + data)[:_SAID]

    def said(self) -> str:
        """Its first complaint, or its exit code."""
        self._thread.join(timeout=10)
        lines = [line.strip() for line in self._text.decode(errors="replace").splitlines() if line.strip()]
        if not lines:
            return f"tar ended with {self._process.returncode}"
        return lines[0].removeprefix("tar: ")


def _end(process: subprocess.Popen[bytes]) -> None:
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
