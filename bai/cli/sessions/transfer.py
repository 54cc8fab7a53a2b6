"""What `bai cp` does: which side is a session, where things land, and the stream between."""

from __future__ import annotations

import os
import posixpath
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bai.render.humanize import clean, plural, size
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.kernel import CopyRefused

if TYPE_CHECKING:
    from bai.cli.sessions.archive import TransferCount
    from providers.abilities import CopiesFiles
    from reconciler.workspace.kernel_access import KernelAccess

STREAM = "-"
CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class SessionPath:
    """`SESSION[/KERNEL]:PATH`."""

    name: str
    path: str


@dataclass(slots=True)
class TransferResult:
    """What to tell: `summary` in one line, and what was not copied."""

    summary: str = ""
    left_out: list[str] = field(default_factory=list)


def parse_session_path(text: str) -> SessionPath | None:
    """The session's side, or None for a local path: one that begins with `/` or `.`, or has no colon."""
    if text.startswith(("/", ".")) or ":" not in text:
        return None
    name, _, path = text.partition(":")
    return SessionPath(name, path or ".") if name else None


def transfer(access: KernelAccess, source: str, target: str) -> TransferResult:
    """Raises CommandError, CopyRefused, NotAble and ProviderError; OSError for local files."""
    from bai.cli.sessions.find import find_kernel, observe_sessions
    from providers.required_abilities import require_copy

    source_path, target_path = parse_session_path(source), parse_session_path(target)
    if (source_path is None) == (target_path is None):
        raise CommandError(
            why="one side must be in a session and the other must not",
            hint="write SESSION:PATH for a path in a session, ./a:b for a local name with a colon",
        )
    there = source_path or target_path
    assert there is not None
    if target_path is not None and source != STREAM and not os.path.lexists(source):
        raise CommandError(why=f"{clean(source)} is not there")
    provider = require_copy(access.provider, access.cluster)
    _, kernel = find_kernel(observe_sessions(access), there.name)
    if source_path is not None:
        return _copy_out(provider.copy_out(kernel.id, source_path.path), target)
    return _copy_in(provider, kernel.id, source, there.path)


def _copy_out(chunks: Iterator[bytes], target: str) -> TransferResult:
    if target == STREAM:
        for data in chunks:
            sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return TransferResult()
    from bai.cli.sessions.archive import unpack

    target_path = Path(target)
    if not target_path.is_dir() and (target.endswith("/") or not target_path.parent.is_dir()):
        missing = target if target.endswith("/") else str(target_path.parent)
        raise CommandError(why=f"{clean(missing)} is not a folder")
    done = unpack(chunks, target_path)
    return TransferResult(_count_text(done), done.left_out)


def _copy_in(provider: CopiesFiles, kernel: str, source: str, path: str) -> TransferResult:
    from bai.cli.sessions.archive import TransferCount, pack

    if source == STREAM:
        provider.copy_in(kernel, path, _read_stdin())
        return TransferResult()
    whole = source.endswith("/.") or source == "."
    here = Path(source)
    real = here.resolve() if here.is_symlink() else here
    folder, name = path, "." if whole else here.name or here.resolve().name
    if not _is_folder(provider, kernel, path):
        if path.endswith("/"):
            raise CommandError(why=f"{clean(path)} is not a folder there")
        folder, name = posixpath.split(path.rstrip("/"))
    tally = TransferCount()
    provider.copy_in(kernel, folder or ".", pack(real, name, tally))
    return TransferResult(_count_text(tally))


def _is_folder(provider: CopiesFiles, kernel: str, path: str) -> bool:
    """Whether the path is a folder in the kernel: its contents can then be asked for."""
    stream = provider.copy_out(kernel, f"{path.rstrip('/') or '/'}/.")
    try:
        return bool(next(iter(stream), b""))
    except CopyRefused:
        return False
    finally:
        if isinstance(stream, Generator):
            stream.close()


def _read_stdin() -> Iterator[bytes]:
    while sys.stdin is not None and (data := os.read(sys.stdin.fileno(), CHUNK)):
        yield data


def _count_text(tally: TransferCount) -> str:
    return f"copied {plural(tally.files, 'file')} ({size(tally.size)})"
