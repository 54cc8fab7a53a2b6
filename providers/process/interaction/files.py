"""Folders of a kernel that runs, and new files in them: what enters it does that itself, with the kernel's
identity and in its view, so that nothing of it needs a program there.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import subprocess
from collections.abc import Iterator, Mapping
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


def list_files(target: ExecTarget, path: str, most: int, *, sandboxed: bool) -> FolderListing:
    """Raises FilesRefused, NotRunning, ProviderError."""
    where = _place(target, path, sandboxed)
    with _serving(target, path, {"do": "list", "path": where, "most": most}) as process:
        assert process.stdout is not None
        answer = process.stdout.read(LARGEST)
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
    with _serving(target, path, order) as process:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            for piece in data:
                process.stdin.write(piece)


@contextlib.contextmanager
def _serving(target: ExecTarget, path: str, order: Mapping[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """What serves it, which is told at the end that no more comes. Raises FilesRefused where it complains."""
    process = execute.begin_files(target, order)
    errors = copy.ErrorReader(process)
    try:
        try:
            yield process
        finally:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
        if process.wait() != 0:
            raise _refusal(target, path, errors.first_complaint().removeprefix("bai: "))
    finally:
        copy.end_process(process)


def _place(target: ExecTarget, path: str, sandboxed: bool) -> str:
    if "\0" in path:
        raise _refusal(target, repr(path), "a NUL byte is no name")
    return copy.absolute_path(target.record, path, sandboxed)


def _refusal(target: ExecTarget, path: str, why: str) -> FilesRefused:
    return FilesRefused(provider="process", kernel=target.record.id, path=path, why=why)
