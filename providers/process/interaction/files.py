"""Folders of a kernel that runs, and new files in them: what enters it does that itself, with the kernel's
identity and in its view, so that nothing of it needs a program there.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from providers.machines.folder_listing import FolderListing, parse_listing
from providers.process.interaction import copy, execute
from schemas.problems.errors.kernel import FilesRefused

if TYPE_CHECKING:
    from providers.process.interaction.execute import ExecTarget

LARGEST = 64 * 2**20
"""Bytes of an answer: whoever gives it may have been taken over by the kernel."""
PATIENCE = 10.0
"""Seconds in which what was told that no more comes takes back what it has."""
STALL = 60.0
"""Seconds without a byte in either direction after which it is ended: the session's processes can stop it."""


def list_files(target: ExecTarget, path: str, most: int, *, sandboxed: bool) -> FolderListing:
    """Raises FilesRefused, NotRunning, ProviderError."""
    where = _place(target, path, sandboxed)
    answer = b""
    with _serving(target, path, {"do": "list", "path": where, "most": most}) as (process, watch):
        assert process.stdout is not None
        while len(answer) < LARGEST and (piece := process.stdout.read1(copy.CHUNK)):  # type: ignore[attr-defined]
            watch.progress()
            answer += piece
    try:
        return parse_listing(json.loads(answer))
    except (ValueError, RecursionError) as error:
        raise _refusal(target, path, "what it answered is no list of files") from error


def write_file(target: ExecTarget, path: str, size: int, data: Iterator[bytes], *, sandboxed: bool) -> None:
    """Raises the same, and what `data` raises."""
    folder, name = posixpath.split(_place(target, path, sandboxed))
    if name in ("", ".", ".."):
        raise _refusal(target, path, "that is no name of a file")
    order = {"do": "write", "path": folder, "name": os.fsencode(name).hex(), "size": size}
    with _serving(target, path, order) as (process, watch):
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            for piece in data:
                process.stdin.write(piece)
                watch.progress()


@contextlib.contextmanager
def _serving(
    target: ExecTarget, path: str, order: Mapping[str, Any]
) -> Iterator[tuple[subprocess.Popen[bytes], _StallWatch]]:
    """What serves it, which is told at the end that no more comes. Raises FilesRefused where it complains."""
    process = execute.begin_files(target, order)
    errors = copy.ErrorReader(process)
    try:
        with _StallWatch(process.kill) as watch:
            try:
                yield process, watch
            finally:
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE)
            if process.wait() != 0:
                why = errors.first_complaint().removeprefix("bai: ")
                raise _refusal(target, path, "what looks there was stopped" if watch.stalled else why)
    finally:
        copy.end_process(process)


class _StallWatch:
    """Ends, while it is entered, what makes no progress."""

    def __init__(self, end: Callable[[], object]) -> None:
        self._end = end
        self._count = 0
        self._over = threading.Event()
        self.stalled = False

    def progress(self) -> None:
        self._count += 1

    def __enter__(self) -> _StallWatch:
        threading.Thread(target=self._watch, name="stall-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        seen = self._count
        while not self._over.wait(STALL):
            if self._count == seen:
                self.stalled = True
                self._end()
                return
            seen = self._count


def _place(target: ExecTarget, path: str, sandboxed: bool) -> str:
    if "\0" in path:
        raise _refusal(target, repr(path), "a NUL byte is no name")
    return copy.absolute_path(target.record, path, sandboxed)


def _refusal(target: ExecTarget, path: str, why: str) -> FilesRefused:
    return FilesRefused(provider="process", kernel=target.record.id, path=path, why=why)
