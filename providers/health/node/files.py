"""A machine's files and programs, read so that none of them can hold anybody up."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from typing import Any, Callable

_LARGEST = 16 << 20


class Tree:
    """Files below `root`; what cannot be read is empty."""

    def __init__(self, root: str = "") -> None:
        self.root = root.rstrip("/")

    @property
    def own(self) -> bool:
        """Whether it is the running machine itself, and not a copy of its files."""
        return not self.root

    def at(self, path: str) -> str:
        return self.root + path

    def read(self, path: str, most: int = _LARGEST) -> str:
        try:
            with open(self.at(path), "rb") as file:
                return file.read(most).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.at(path)))
        except OSError:
            return []

    def there(self, path: str) -> bool:
        return os.path.exists(self.at(path))

    def number(self, path: str) -> int | None:
        text = self.read(path, 64)
        return int(text) if text.isascii() and text.isdigit() else None


class NoAnswer(Exception):
    """A program or a driver did not answer in time."""


def run(argv: list[str], seconds: float) -> tuple[int, str]:
    """Exit code and output; 127 where the program is not there. Raises NoAnswer.

    A program that hangs in the kernel is killed and not waited for: it may never end.
    """
    program = shutil.which(argv[0])
    if program is None:
        return 127, ""
    try:
        process = subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"}, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return 126, str(error)
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _kill(process.pid)
        raise NoAnswer(f"{argv[0]} did not answer within {seconds:g} s") from None
    return process.returncode, out.decode("utf-8", "replace")


def run_apart(ask: Callable[[], Any], seconds: float) -> Any:
    """What `ask` gives (a value of JSON), found by a process of its own. Raises NoAnswer."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(ask, reading, writing)
    os.close(writing)
    try:
        text = _read_all(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
    if text is None:
        _kill(child)
        raise NoAnswer(f"the driver did not answer within {seconds:g} s")
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def _answer(ask: Callable[[], Any], reading: int, writing: int) -> None:
    """The child: it holds none of its parent's streams, so that nobody waits for it."""
    try:
        os.setsid()
        os.close(reading)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        data = json.dumps(ask()).encode()
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _read_all(file: int, deadline: float) -> str | None:
    found = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([file], [], [], left)[0]:
            return None
        part = os.read(file, 65536)
        if not part:
            return found.decode()
        found += part


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
