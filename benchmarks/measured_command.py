"""What one command costs, with what it waits for: time, CPU and memory."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sample:
    """Seconds on the wall and of CPU, peak memory in MiB."""

    wall: float
    cpu: float
    peak_mib: float


def run_measured(argv: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Sample:
    """One command, which must succeed; what it says is shown where it does not."""
    with tempfile.TemporaryFile() as said:
        begin = time.perf_counter()
        child = subprocess.Popen(
            argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            text = said.read().decode(errors="replace")[-2000:]
            raise SystemExit(f"{' '.join(argv)} ended with {child.returncode}: {text}")
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
