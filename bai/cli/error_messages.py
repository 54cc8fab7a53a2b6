"""Every way a run can fail, turned into a message a person can act on and an exit code.

Expected errors (BaiError, wrong usage, files that cannot be opened) are explained; anything else is a defect
of bai, which gets a short message and a report file with the traceback.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from typer.exceptions import Abort, TyperException

from bai.cli.lazy_commands import Interrupted
from providers.state_folder import state_folder
from schemas.problems import disk_space
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.plan import StalePlan
from schemas.problems.errors.repository import InvalidRepository

FAILED = 1
EXTRA_OF_MODULE = dict.fromkeys(
    ("fastapi", "uvicorn", "sse_starlette", "h11", "uvloop", "prometheus_client", "jwt"), "server"
)
"""Modules that not everybody installs → the extra that brings them."""


def report_error(error: BaseException, *, verbose: bool = False, command: Sequence[str] = ()) -> int:
    """Say on stderr what went wrong; gives the exit code, which is 1 for every error."""
    if _is_broken_pipe(error):
        _silence_stdout()
        return FAILED
    for line in error_lines(error, command=command):
        print(line, file=sys.stderr)
    if verbose and not isinstance(error, TyperException | Interrupted):
        traceback.print_exception(error)
    return FAILED


def error_lines(error: BaseException, *, command: Sequence[str] = ()) -> list[str]:
    """The message for an error, as lines without colour."""
    if isinstance(error, InvalidRepository):
        hint = [f"  {error.hint}"] if error.hint else []
        return [*map(str, error.problems), f"error: {error.message}", *hint]
    if isinstance(error, BaiError):
        return _bai_error_lines(error)
    if isinstance(error, TyperException):
        return _usage_lines(error)
    if isinstance(error, Abort):
        return ["Nothing was changed."]
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return ["Interrupted."]
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRA_OF_MODULE.get(error.name or "")):
        why = f"this needs the extra `{extra}`, and {error.name} is not installed"
        return _bai_error_lines(CommandError(why=why, hint=f"pip install 'bai[{extra}]'"))
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        line = f"error: {place}{error.strerror.lower()}"
        if error.filename and disk_space.is_disk_full(error):
            return [f"{line}: {disk_space.describe_free_space(error.filename)}", f"  {disk_space.HINT}"]
        return [line]
    return _defect_lines(error, command)


def _bai_error_lines(error: BaiError) -> list[str]:
    lines = [f"error: {error.message} [{error.code}]"]
    if error.hint:
        lines.append(f"  {error.hint}")
    elif isinstance(error, StalePlan):
        lines.append("  make a new plan and read it again")
    elif error.retryable:
        lines.append("  this may pass: try again")
    return lines


def _usage_lines(error: TyperException) -> list[str]:
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        return [message]
    lines = [f"error: {message}"]
    if context is not None:
        lines = [str(context.get_usage()), *lines, f"  `{context.command_path} --help` says more"]
    return lines


def _defect_lines(error: BaseException, command: Sequence[str]) -> list[str]:
    lines = [f"error: this is a defect of bai: {type(error).__name__}: {str(error)[:500]}"]
    try:
        path = _write_report(error, command)
    except OSError:
        return [*lines, "  run again with --verbose for the traceback"]
    return [*lines, f"  the traceback is in {path}: please attach it to a report"]


def _write_report(error: BaseException, command: Sequence[str]) -> Path:
    """A file with the traceback, readable by its owner alone; of the command line only the command's name."""
    import platform

    from bai import __version__

    home = state_folder() / "reports"
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError:
        home = Path(tempfile.gettempdir())
    name = next((word for word in command if not word.startswith("-")), "")
    handle, path = tempfile.mkstemp(
        prefix=time.strftime("bai-%Y%m%dT%H%M%S-", time.gmtime()), suffix=".txt", dir=home
    )
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"bai {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
        file.write(f"command: {name}\n\n")
        file.writelines(traceback.format_exception(error))
    return Path(path)


def _is_broken_pipe(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def _silence_stdout() -> None:
    """Keep the interpreter from complaining about the closed pipe when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
