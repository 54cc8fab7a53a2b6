"""Running git: the one place that does.

Who may write to a repository, or answers for a remote, chooses neither what git runs beside itself nor how
long it takes and how much it says.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from schemas.problems.errors.repository import CannotRead
from schemas.problems.text import printable

TIMEOUT = 120.0
"""Seconds for one command."""
MAX_OUTPUT_BYTES = 64 << 20
"""Bytes that one command may say."""
CANNOT_RUN, TOO_SLOW, TOO_MUCH = 127, 124, 125
"""Exit codes of a git that could not be started, took too long, or said too much."""
_ERROR_BYTES = 64 << 10
"""What is kept of its errors: the end, where ssh tells its reason."""
_CHUNK = 1 << 20
_REPOSITORY_VARIABLES = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_SHALLOW_FILE",
)  # fmt: skip
"""What git tells the hooks it runs, and what would lead ours to another repository."""
_ENVIRONMENT = {
    # What it says is read.
    "LC_ALL": "C",
    # No object stands in for another one: `refs/replace` and grafts may have come from anybody.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
_NO_PROGRAMS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""Against programs that settings of a repository name."""


_UNINFORMATIVE = re.compile(
    r"fatal: Could not read from remote|Please make sure|and the repository exists|@@@"
)
"""Lines of git and ssh that do not say why."""


def execute_git(
    *arguments: str,
    folder: Path | None = None,
    data: bytes = b"",
    timeout: float = TIMEOUT,
    limit: int = MAX_OUTPUT_BYTES,
    environment: Mapping[str, str] | None = None,
    as_user: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """What git says to `data`; the exit codes above tell of a git that did not come to its end, of which then
    nothing is left. `folder`: of the repository. `as_user`: with his hooks, and ssh may ask him something."""
    where = ("-C", str(folder)) if folder else ()
    command = ["git", *(() if as_user else _NO_PROGRAMS), *where, *arguments]
    inherited = {name: value for name, value in os.environ.items() if name not in _REPOSITORY_VARIABLES}
    deadline = time.monotonic() + timeout
    try:
        with _stdin(data) as stdin, subprocess.Popen(
            command, env={**inherited, **_ENVIRONMENT, **(environment or {})}, stdin=stdin,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=not as_user,
        ) as child:  # fmt: skip
            try:
                said, errors = _read_output(child, deadline, limit)
                child.wait(max(0.0, deadline - time.monotonic()))
            finally:
                _kill(child, whole_session=not as_user)
        return subprocess.CompletedProcess(command, child.returncode, said, errors)
    except (TimeoutError, subprocess.TimeoutExpired):
        code, why = TOO_SLOW, f"no answer within {timeout:g} s"
    except OverflowError:
        code, why = TOO_MUCH, f"git says more than {limit >> 20} MiB"
    except OSError as error:
        code, why = CANNOT_RUN, f"git cannot be run: {error.strerror}"
    return subprocess.CompletedProcess(command, code, b"", why.encode())


def ask_git(
    folder: Path, *arguments: str, what: str, data: bytes = b"", accepted: tuple[int, ...] = (0,),
    limit: int = MAX_OUTPUT_BYTES,
) -> bytes:  # fmt: skip
    """What git says. Raises CannotRead, which names `what` is read, unless it ends with an accepted code."""
    done = execute_git(*arguments, folder=folder, data=data, limit=limit)
    if done.returncode not in accepted:
        raise CannotRead(what=what, why=printable(failure_reason(decoded(done).stderr)[:400]))
    return done.stdout


def git_lines(folder: Path, *arguments: str) -> list[str] | None:
    """Lines that git says, or None when it fails. Raises CannotRead when it refuses to look because somebody
    else owns the folder."""
    done = execute_git(*arguments, folder=folder)
    if b"dubious ownership" in done.stderr:
        hint = f"git config --global --add safe.directory {folder}"
        raise CannotRead(
            what=str(folder), why="git distrusts a repository that somebody else owns", hint=hint
        )
    return os.fsdecode(done.stdout).splitlines() if done.returncode == 0 else None


def is_below_git(folder: Path) -> bool:
    """Whether a folder, links resolved, or one above it has a `.git`. Else git would find no working copy
    there: the variables that lead it elsewhere are kept from it here."""
    return any(os.path.lexists(each / ".git") for each in (folder, *folder.parents))


def failure_reason(said: str) -> str:
    """The line of git's errors that says why."""
    lines = [line for line in map(str.strip, said.splitlines()) if line and not _UNINFORMATIVE.match(line)]
    why = next((line for line in lines if line.startswith(("fatal:", "error:", "!"))), "")
    # ssh tells its reason last.
    return (
        (why or (lines[-1] if lines else "git does not say")).removeprefix("fatal: ").removeprefix("error: ")
    )


def decoded(done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[str]:
    """The same as text, whatever bytes there are."""
    said, errors = (part.decode("utf-8", "replace") for part in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, said, errors)


@contextlib.contextmanager
def _stdin(data: bytes) -> Iterator[int | IO[bytes]]:
    """A file, as a pipe would have to be written to while the answer is read."""
    if not data:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


def _read_output(child: subprocess.Popen[bytes], deadline: float, limit: int) -> tuple[bytes, bytes]:
    """What it says, and the end of its errors. Raises TimeoutError, and OverflowError for too much."""
    assert child.stdout is not None and child.stderr is not None
    said = bytearray()  # Not parts, of which there may be one for each byte.
    errors = b""
    with selectors.DefaultSelector() as streams:
        for stream in (child.stdout, child.stderr):
            streams.register(stream, selectors.EVENT_READ)
        while streams.get_map():
            left = deadline - time.monotonic()
            ready = streams.select(left) if left > 0 else []
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                part = os.read(key.fd, _CHUNK)
                if not part:
                    streams.unregister(key.fileobj)
                elif key.fileobj is child.stdout:
                    said += part
                    if len(said) > limit:
                        raise OverflowError
                else:
                    errors = (errors + part)[-_ERROR_BYTES:]
    return bytes(said), errors


def _kill(child: subprocess.Popen[bytes], *, whole_session: bool) -> None:
    """Where it still runs, with all that it started: who speaks to a remote would wait on for ever."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL) if whole_session else child.kill()
