"""Costs of alternatives, measured in turn, so that what else the machine does meets all of them alike."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping


def cpu_us(runs: Mapping[str, Callable[[], object]], each: int, rounds: int = 9) -> dict[str, float]:
    """Microseconds of CPU time of one of the `each` things that a run does: medians over rounds."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            before = time.process_time()
            run()
            if turn:  # The first one warms up.
                found[name].append((time.process_time() - before) / each * 1e6)
    return {name: round(statistics.median(samples), 2) for name, samples in found.items()}


def bytes_of(make: Callable[[], object]) -> int:
    """Bytes that are held as long as what is made."""
    tracemalloc.start()
    made = make()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del made
    return held


def import_ms(module: str, after: str, runs: int = 7) -> float:
    """Milliseconds of CPU time that importing it takes, once `after` is imported."""
    code = f"import {after}, time\nb = time.process_time()\nimport {module}\nprint(time.process_time() - b)"
    done = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        for _ in range(runs)
    ]
    return round(statistics.median(map(float, done)) * 1000, 1)
