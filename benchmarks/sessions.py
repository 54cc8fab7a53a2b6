"""The main job on this machine: time and memory of `bai plan` and `bai apply` with native processes.

    python -m benchmarks.sessions --sessions 1 50 --json result.json

- plan, cold: the first plan of a fresh copy of examples/quickstart, without store and without compiled files.
- plan, warm: the same again, and once more when everything runs and there is nothing to do.
- apply: from the start of `bai apply` until every session's processes are seen alive; then `bai destroy`.

Times are seconds of the whole command, on the wall and of CPU (which other work disturbs least); memory is
the peak of its process. Everything happens under temporary folders.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.measured_command import Sample, run_measured
from benchmarks.results import keep

ROOT = Path(__file__).resolve().parent.parent
SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {{name: s{at:03}, project: demo}}
spec:
  type: interactive
  resources: {{cpu: 10m, memory: 32MiB}}
  command: [sleep, infinity]
"""


@dataclass(frozen=True)
class Measured:
    """One row: seconds on the wall and of CPU (medians of `runs`) and peak memory in MiB."""

    what: str
    seconds: float
    cpu_seconds: float
    peak_mib: float
    runs: int


class Machine:
    """The command in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = folder / "repository"
        self.env = os.environ | {
            "BAI_PROCESS_ROOT": str(folder / "machine"),
            "PYTHONPATH": str(ROOT),
            "NO_COLOR": "1",
        }

    def bai(self, *words: str, **environment: str) -> Sample:
        """One command, which must succeed."""
        return run_measured(
            [sys.executable, "-c", "from bai.cli.main import main; main()", *words],
            self.repository,
            self.env | environment,
        )

    def running(self) -> int:
        """Sessions whose kernels are all running, by `bai get`."""
        done = subprocess.run(
            [sys.executable, "-c", "from bai.cli.main import main; main()", "get", "--format", "json"],
            cwd=self.repository,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        items = json.loads(done.stdout)["items"]
        return sum(
            all(k["state"] == "running" for k in i["kernels"]) for i in items if i.get("phase") == "RUNNING"
        )


def plans(runs: int) -> list[Measured]:
    """Plan on the quickstart: cold, warm, and with nothing to do."""
    with tempfile.TemporaryDirectory(prefix="bai-bench-") as folder:
        machine = Machine(Path(folder))
        shutil.copytree(ROOT / "examples" / "quickstart", machine.repository)
        cold = [
            machine.bai("plan", PYTHONPYCACHEPREFIX=str(machine.folder / f"cache{at}"))
            for at in range(max(1, runs // 3))
        ]
        warm = [machine.bai("plan") for _ in range(runs)]
        try:
            machine.bai("apply", "--yes")
            idle = [machine.bai("plan") for _ in range(runs)]
        finally:
            machine.bai("destroy", "--yes")
    rows = {"plan, cold": cold, "plan, warm": warm, "plan, no changes": idle}
    return [row(what, found) for what, found in rows.items()]


def applies(count: int) -> list[Measured]:
    """Apply `count` sessions, until all run; plan again; destroy."""
    with tempfile.TemporaryDirectory(prefix="bai-bench-") as folder:
        machine = Machine(Path(folder))
        shutil.copytree(ROOT / "examples" / "quickstart", machine.repository)
        shutil.rmtree(machine.repository / "sessions")
        tenancy = machine.repository / "tenancy.yaml"
        tenancy.write_text(tenancy.read_text().replace("concurrentSessions: 10", "concurrentSessions: 1000"))
        for at in range(count):
            (machine.repository / f"s{at:03}.yaml").write_text(SESSION.format(at=at))
        try:
            begin = time.perf_counter()
            applied = machine.bai("apply", "--yes")
            while machine.running() < count:
                applied = replace(applied, seconds=time.perf_counter() - begin)
            again = machine.bai("plan")
        finally:
            destroyed = machine.bai("destroy", "--yes")
    name = f"{count} session{'s' if count > 1 else ''}"
    return [
        row(f"apply to RUNNING, {name}", [applied]),
        row(f"plan, no changes, {name}", [again]),
        row(f"destroy, {name}", [destroyed]),
    ]


def row(what: str, found: list[Sample]) -> Measured:
    seconds = round(statistics.median(each.wall for each in found), 3)
    cpu = round(statistics.median(each.cpu for each in found), 3)
    return Measured(what, seconds, cpu, round(max(each.peak_mib for each in found), 1), len(found))


def main() -> int:
    parser = argparse.ArgumentParser(description="Plan and apply with native processes on this machine.")
    parser.add_argument("--sessions", type=int, nargs="*", default=[1, 50])
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows = plans(chosen.runs)
    for count in chosen.sessions:
        rows += applies(count)
    print(f"{'':32} {'seconds':>8} {'CPU':>8} {'peak MiB':>9} {'runs':>5}")
    for each in rows:
        figures = f"{each.seconds:8.3f} {each.cpu_seconds:8.3f} {each.peak_mib:9.1f} {each.runs:5}"
        print(f"{each.what:32} {figures}")
    result = {
        "version": "bai.benchmark.sessions/v1",
        "cpus": os.cpu_count(),
        "rows": [*map(asdict, rows)],
    }
    keep(result, chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
