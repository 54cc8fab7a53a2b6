"""What bai costs as documents grow, beside Terraform with as many resources (where it is on the machine).

    python -m benchmarks.scale --sessions 1000 2000 5000 10000 --json result.json --svg growth.svg

Each size is a repository with so many sessions in files of ten, and as many nodes each time, simulated. CPU
seconds, seconds on the wall and peak of memory, of processes of their own each:

- `validate, cold`: nothing was ever read; `warm`: again.
- `plan, cold`: `bai plan --offline` of what is recorded, nothing to do, nothing read before; `warm`: again;
  `one changed`: after one session has changed.
- `loop, ...`: passes of the loop (see `benchmarks.loop`): the first, one with nothing to do, one with one
  more session, and the one after that; its memory is that of the process.
- `terraform plan`, `one changed`: the same with as many `terraform_data` resources; `terraform apply` of
  up to 2,000, for its time grows with the square. Of more the state is written down.

`growth` is the exponent between a size and the one before: 1 is in proportion, 2 with the square.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bai.cli.main import start_lightly
from benchmarks.loop import Bench
from benchmarks.measured_command import Sample, run_measured
from benchmarks.peers.terraform import Terraform, is_there
from benchmarks.results import keep, parser_of
from benchmarks.scale_svg import growth_svg

ROOT = Path(__file__).resolve().parent.parent
BAI = (sys.executable, "-c", "from bai.cli.main import main; main()")
AGAIN = 3
MOST_APPLIED = 2000
"""Resources that Terraform makes itself."""
Row = dict[str, float]
"""`cpu`, `wall` (seconds) and `peak_mib`, where there is one."""


def loop_passes(root: Path, nodes: int, sessions: int) -> dict[str, Row]:
    """In this process, whose memory it measures."""
    start_lightly()
    bench = Bench(root, nodes, sessions)
    first = bench.once()
    bench.once()
    idle = [bench.once() for _ in range(AGAIN)]
    added = [(bench.add(f"more{at}"), bench.once()) for at in range(AGAIN)]
    bench.loop.workspace.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {
        "loop, first pass": [first],
        "loop, nothing to do": idle,
        "loop, one more": [one for one, _ in added],
        "loop, the pass after": [after for _, after in added],
    }
    return {
        name: {key: statistics.median(each[key] for each in samples) for key in ("cpu", "wall")}
        | {"peak_mib": peak}
        for name, samples in found.items()
    }


class Documents:
    """The commands, on a repository that the loop has left."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "repository"
        self._cache = root / "cache"
        self._environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(self._cache), "NO_COLOR": "1",
        }  # fmt: skip

    def bai(self, *words: str) -> Sample:
        store = str(self.root / "store.db")
        return run_measured([*BAI, "--state", store, *words], self.folder, self._environment)

    def forget(self) -> None:
        """What was read of documents."""
        shutil.rmtree(self._cache, ignore_errors=True)

    def change_one(self) -> None:
        """A session that waits or runs gets another command."""
        path = self.folder / "sessions" / "0.yaml"
        path.write_text(path.read_text().replace("[sleep, inf]", "[sleep, '9']", 1))


def commands(root: Path) -> dict[str, Row]:
    documents = Documents(root)
    found = {}
    documents.forget()
    for name, words in (("validate", ["validate"]), ("plan", ["plan", "--offline"])):
        documents.forget()
        found[f"{name}, cold"] = documents.bai(*words)
        found[f"{name}, warm"] = median([documents.bai(*words) for _ in range(AGAIN)])
    documents.change_one()
    found["plan, one changed"] = documents.bai("plan", "--offline")
    return {name: row(sample) for name, sample in found.items()}


def terraform(root: Path, resources: int) -> dict[str, Row]:
    peer = Terraform(root / "terraform", resources)
    found = {}
    if resources <= MOST_APPLIED:
        found["terraform apply"] = peer.apply()
    else:
        peer.write_state()
    found["terraform plan"] = median([peer.plan() for _ in range(AGAIN)])
    peer.change_one()
    found["terraform plan, one changed"] = peer.plan(changes=True)
    return {name: row(sample) for name, sample in found.items()}


def median(samples: Sequence[Sample]) -> Sample:
    """The one in the middle by CPU time."""
    return sorted(samples, key=lambda one: one.cpu)[len(samples) // 2]


def row(sample: Sample) -> Row:
    return {"cpu": sample.cpu, "wall": sample.wall, "peak_mib": sample.peak_mib}


def measure(nodes: int, sessions: int, peer: bool) -> dict[str, Row]:
    with tempfile.TemporaryDirectory(prefix="bai-scale-") as folder:
        root = Path(folder)
        result = root / "passes.json"
        # A process of its own, for its memory.
        arguments = ["--passes", str(root), "--nodes", str(nodes), "--sessions", str(sessions)]
        argv = [sys.executable, "-m", "benchmarks.scale", *arguments, "--json", str(result)]
        run_measured(argv, ROOT)
        passes = json.loads(result.read_text())
        return commands(root) | passes | (terraform(root, sessions) if peer else {})


def growth(sizes: Mapping[int, Mapping[str, Row]], name: str, at: int, before: int) -> float:
    """How CPU time grew, as an exponent of the number of sessions."""
    ratio = sizes[at][name]["cpu"] / max(sizes[before][name]["cpu"], 0.001)
    return math.log(max(ratio, 0.001)) / math.log(at / before)


def table(sizes: Mapping[int, Mapping[str, Row]]) -> list[str]:
    """Markdown: CPU seconds by size, the growth of the last step, wall and memory of the largest."""
    order = sorted(sizes)
    head = ["CPU seconds", *(f"{size:,}" for size in order), "growth", "wall", "peak MiB"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name in sizes[order[-1]]:
        last = sizes[order[-1]][name]
        grown = f"{growth(sizes, name, order[-1], order[-2]):.2f}" if len(order) > 1 else ""
        cells = [f"{sizes[size][name]['cpu']:.2f}" if name in sizes[size] else "" for size in order]
        cells += [grown, f"{last['wall']:.2f}", f"{last['peak_mib']:.0f}"]
        lines.append(f"| {' | '.join([name, *cells])} |")
    return lines


def main() -> None:
    parser = parser_of("scale", __doc__)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--sessions", type=int, nargs="+", default=[1000, 2000, 5000, 10_000, 20_000])
    parser.add_argument("--no-terraform", action="store_true", help="bai alone")
    parser.add_argument("--svg", type=Path, help="draw the growth into this file")
    parser.add_argument("--passes", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.passes:
        keep(loop_passes(given.passes, given.nodes, given.sessions[0]), given.json)
        return
    sizes: dict[int, dict[str, Row]] = {}
    for size in sorted(given.sessions):
        sizes[size] = measure(given.nodes, size, is_there() and not given.no_terraform)
        print(f"{size:,} sessions: measured", file=sys.stderr, flush=True)
    print("\n".join(table(sizes)))
    found: dict[str, Any] = {"nodes": given.nodes, "load": os.getloadavg()[0], "sessions": sizes}
    keep(found, given.json)
    if given.svg:
        given.svg.write_text(growth_svg(sizes))


if __name__ == "__main__":
    main()
