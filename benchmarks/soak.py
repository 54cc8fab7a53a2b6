"""`bai serve` under pushes for a long time: its memory, file descriptors and threads must stay flat.

    python -m benchmarks.soak --minutes 30 --json result.json

A push every `--every` seconds, through a bare repository behind HTTP and a webhook: each adds a session or
takes one away, at most eight at a time, as native processes. Meanwhile the API is asked every second. One
sample a second of what /proc says of the server; those of the first fifth are left out, for everything is
loaded and filled there. `growth` compares the median of the last quarter with that of the first.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import parser_of, show
from benchmarks.served import SESSION, Work, served
from tests.lab.serve import Serve

AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Sample:
    """Of one moment: resident memory in MiB, open files, threads."""

    at: float
    memory: float
    files: int
    threads: int


def sample(pid: int) -> Sample:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return Sample(time.monotonic(), int(status["VmRSS"].split()[0]) / 1024, files, int(status["Threads"]))


def soak(minutes: float, every: float, root: Path) -> dict[str, Any]:
    with served(root) as site:
        site.set_hook(site.server.hook)
        samples: list[Sample] = []
        over = threading.Event()
        watching = threading.Thread(target=_watch, args=(site.server, samples, over), daemon=True)
        watching.start()
        pushes = _pushes(site.work, time.monotonic() + minutes * 60, every)
        over.set()
        watching.join()
        site.empty()
        ended = site.server.stop()
    return {"minutes": minutes, "pushes": pushes, "exit": ended, **_summary(samples)}


def _pushes(work: Work, end: float, every: float) -> int:
    """One after the other until it is time; gives how many there were."""
    names: list[str] = []
    count = 0
    while (now := time.monotonic()) < end:
        count += 1
        if len(names) == AT_ONCE:
            (work.folder / f"{names.pop(0)}.yaml").unlink()
        names.append(f"s{count}")
        work.commit(names[-1], SESSION.format(name=names[-1]))
        work.push()
        time.sleep(max(0.0, now + every - time.monotonic()))
    return count


def _watch(server: Serve, samples: list[Sample], over: threading.Event) -> None:
    while not over.wait(1.0):
        samples.append(sample(server.pid))
        server.ask("")
        server.ask("/resources")


def _summary(samples: Sequence[Sample]) -> dict[str, Any]:
    settled = samples[len(samples) // 5 :]
    quarter = max(1, len(settled) // 4)
    found: dict[str, Any] = {"samples": len(samples)}
    for key in ("memory", "files", "threads"):
        values = [float(getattr(each, key)) for each in settled]
        first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
        found[key] = {
            "first": round(first, 1), "last": round(last, 1), "growth": round(last / first - 1, 4),
            "most": round(max(values), 1),
            "curve": [round(each, 1) for each in values[:: len(values) // 20 + 1]],
        }  # fmt: skip
    return found


def main() -> None:
    parser = parser_of("soak", __doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--every", type=float, default=3.0, help="seconds from one push to the next")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bai-soak-") as folder:
        found = soak(given.minutes, given.every, Path(folder))
    show(found, given.json)


if __name__ == "__main__":
    main()
