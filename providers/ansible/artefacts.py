"""What is kept of runs: for each a folder with the inventory, Ansible's own log, its events, and the results.

runs/20260102-030405-check-x7f2/   hosts.yml  log  events.jsonl  results.json
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from providers.ansible.secrets import Mask
from providers.provisioning import HostResult

KEPT = 100
"""Runs, the newest."""
EVENT_BYTES = 32 << 20
"""Most bytes of one run's events; what comes after is in the log only."""
RUNNER = "runner"
LONGEST = 40
"""Characters of a temporary folder's path in which a socket's path, at most 108, has room."""
_SCRATCH = "bai-run-"
_LONG_AGO = 24 * 3600.0
"""Seconds after which a run that was not tidied up was killed."""
_STALE = 3600.0
"""Seconds after which a scratch folder whose run never began is somebody's leftover."""


def new_run_folder(root: Path, label: str) -> Path:
    """A folder for one run, after the oldest ones have gone."""
    runs = root / "runs"
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in sorted(runs.iterdir(), reverse=True)[KEPT - 1 :]:
        if not _is_running(old):
            shutil.rmtree(old, ignore_errors=True)
    folder = runs / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{label}-{secrets.token_hex(2)}"
    folder.mkdir(mode=0o700)
    return folder


def _is_running(folder: Path) -> bool:
    """A long run among many short ones: what it is given and tells is taken away at its end."""
    try:
        return time.time() - (folder / RUNNER).stat().st_mtime < _LONG_AGO
    except OSError:
        return False


def new_scratch_folder() -> Path:
    """A folder for what must not be kept. Its path is short, as sockets stand in it. Leftovers of runs that
    were killed with all that belongs to them go."""
    place = Path(tempfile.gettempdir())
    place = place if len(str(place)) < LONGEST else Path("/tmp")
    for left in place.glob(f"{_SCRATCH}*"):
        if _is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=place))


def _is_abandoned(folder: Path) -> bool:
    try:
        if folder.stat().st_uid != os.geteuid():
            return False
        pid = folder / "pid"
        if pid.is_file():
            return not Path(f"/proc/{int(pid.read_text())}").exists()
        return time.time() - folder.stat().st_mtime > _STALE
    except (OSError, ValueError):
        return False


class EventFile:
    """One JSON document a line, without what only repeats the log."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self._file: IO[str] = os.fdopen(descriptor, "w", encoding="utf-8")
        self._room = EVENT_BYTES

    def write(self, event: Mapping[str, Any]) -> None:
        data: dict[str, Any] = {name: event.get(name) for name in ("created", "event", "event_data")}
        if str((data["event_data"] or {}).get("task_action")).endswith("setup"):
            data["event_data"] = {**data["event_data"], "res": {}}  # what the node is, at great length
        line = json.dumps(data, default=str) + "\n"
        self._room -= len(line)
        if self._room > 0:
            self._file.write(line)

    def close(self) -> None:
        self._file.close()


def tidy_run_folder(folder: Path, mask: Mask) -> str:
    """Of what the runner wrote keep Ansible's output alone, without secrets; its last lines are answered."""
    runner = folder / RUNNER
    text = ""
    with contextlib.suppress(OSError, StopIteration):
        text = mask.text(next(runner.rglob("stdout")).read_text(encoding="utf-8", errors="replace"))
    shutil.rmtree(runner, ignore_errors=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with open(os.open(folder / "log", flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return "\n".join(text.strip().splitlines()[-12:])


def write_results(folder: Path, results: Iterable[HostResult]) -> None:
    """The results, for people and programs that look later."""
    found = [asdict(each) | {"artefacts": str(each.artefacts)} for each in results]
    text = json.dumps(found, indent=1, sort_keys=True)
    with open(os.open(folder / "results.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text + "\n")
