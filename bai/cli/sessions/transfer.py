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
from schemas.problems.errors import CommandError, CopyRefused

if TYPE_CHECKING:
    from bai.cli.sessions.archive import Tally
    from providers.abilities import Copies
    from reconciler.workspace.workspace import Workspace

STREAM = "-"
CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Far:
    """`SESSION[/KERNEL]:PATH`."""

    name: str
    path: str


@dataclass(slots=True)
class Copied:
    """What to tell: `said` in one line, and what was not copied."""

    said: str = ""
    left_out: list[str] = field(default_factory=list)


def far(text: str) -> Far | None:
    """The session's side, or None for a local path: one that begins with `/` or `.`, or has no colon."""
    if text.startswith(("/", ".")) or ":" not in text:
        return None
    name, _, path = text.partition(":")
    return Far(name, path or ".") if name else None


def transfer(workspace: Workspace, source: str, target: str) -> Copied:
    """Raises CommandError, CopyRefused, NotAble and ProviderError; OSError for local files."""
    from bai.cli.sessions.find import find_kernel, what_runs
    from bai.cli.sessions.provider_abilities import copies

    out, into = far(source), far(target)
    if (out is None) == (into is None):
        raise CommandError(
            why="one side must be in a session and the other must not",
            hint="write SESSION:PATH for a path in a session, ./a:b for a local name with a colon",
        )
    there = out or into
    assert there is not None
    if into is not None and source != STREAM and not os.path.lexists(source):
        raise CommandError(why=f"{clean(source)} is not there")
    provider = copies(workspace)
    _, kernel = find_kernel(what_runs(workspace), there.name)
    if out is not None:
        return _fetch(provider.copy_out(kernel.id, out.path), target)
    return _send(provider, kernel.id, source, there.path)


def _fetch(chunks: Iterator[bytes], target: str) -> Copied:
    if target == STREAM:
        for data in chunks:
            sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return Copied()
    from bai.cli.sessions.archive import unpack

    into = Path(target)
    if not into.is_dir() and (target.endswith("/") or not into.parent.is_dir()):
        missing = target if target.endswith("/") else str(into.parent)
        raise CommandError(why=f"{clean(missing)} is not a folder")
    done = unpack(chunks, into)
    return Copied(_counted(done), done.left_out)


def _send(provider: Copies, kernel: str, source: str, path: str) -> Copied:
    from bai.cli.sessions.archive import Tally, pack

    if source == STREAM:
        provider.copy_in(kernel, path, _stdin())
        return Copied()
    whole = source.endswith("/.") or source == "."
    here = Path(source)
    real = here.resolve() if here.is_symlink() else here
    folder, name = path, "." if whole else here.name or here.resolve().name
    if not _is_folder(provider, kernel, path):
        if path.endswith("/"):
            raise CommandError(why=f"{clean(path)} is not a folder there")
        folder, name = posixpath.split(path.rstrip("/"))
    tally = Tally()
    provider.copy_in(kernel, folder or ".", pack(real, name, tally))
    return Copied(_counted(tally))


def _is_folder(provider: Copies, kernel: str, path: str) -> bool:
    """Whether the path is a folder in the kernel: its contents can then be asked for."""
    stream = provider.copy_out(kernel, f"{path.rstrip('/') or '/'}/.")
    try:
        return bool(next(iter(stream), b""))
    except CopyRefused:
        return False
    finally:
        if isinstance(stream, Generator):
            stream.close()


def _stdin() -> Iterator[bytes]:
    while sys.stdin is not None and (data := os.read(sys.stdin.fileno(), CHUNK)):
        yield data


def _counted(tally: Tally) -> str:
    return f"copied {plural(tally.files, 'file')} ({size(tally.size)})"
