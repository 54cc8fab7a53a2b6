"""What commands that look cost, beside the interpreter, a bare Typer application and other people's clients.

    python -m benchmarks.commands [--sessions 10000 --nodes 1250] --json result.json

Without `--sessions`: a copy of examples/quickstart after `bai apply`, with and without its session that
waits. With it: so many sessions that all run on simulated nodes, recorded by one pass of the loop (which
takes its time); the nodes are only declared then, so that what is measured is the command.

All run in turn, each in a fresh interpreter; compared are the medians of CPU seconds (user and system, also
of the programs that a command starts). Of other clients, those are measured that answer here: `docker ps` and
`kubectl get nodes` need a server, printing their versions shows what they cost without one.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.loop import Bench
from benchmarks.measured_command import run_measured
from benchmarks.results import parser_of, show
from benchmarks.startup import APP, ROOT

BAI = (sys.executable, "-c", "from bai.cli.main import main; main()")
PEERS = ("docker ps", "docker --version", "kubectl get nodes", "kubectl version --client")
QUICKSTART = (
    "version", "get", "get --format json", "describe web", "explain web", "logs trio", "history",
    "events", "events web", "audit", "plan",
)  # fmt: skip
MANY = ("get", "get --format json", "history", "events", "events s1", "audit")


def cpu_seconds(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    """User and system time of one run, which must succeed."""
    return run_measured(argv, folder, environment).cpu


def measure(commands: Sequence[str], folder: Path, environment: Mapping[str, str], runs: int) -> object:
    """Command → median of CPU seconds, and how many bare Typer applications that is."""
    app = folder.parent / "typer_app.py"
    app.write_text(APP.format(options="rich_markup_mode=None"))
    argvs = {
        "python -c pass": (sys.executable, "-c", "pass"),
        "typer": (sys.executable, str(app), "first"),
        **{words: argv for words in PEERS if answers(argv := words.split())},
        **{f"bai {words}": (*BAI, *words.split()) for words in commands},
    }
    samples: dict[str, list[float]] = {name: [] for name in argvs}
    for number in range(runs + 1):
        for name, argv in argvs.items():
            taken = cpu_seconds(argv, folder, environment)
            if number:  # The first run of each compiles modules, and indexes the documents.
                samples[name].append(taken)
    medians = {name: statistics.median(found) for name, found in samples.items()}
    return {
        name: {"cpu": round(found, 3), "typers": round(found / medians["typer"], 2)}
        for name, found in medians.items()
    }


def answers(argv: Sequence[str]) -> bool:
    if shutil.which(argv[0]) is None:
        return False
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return done.returncode == 0


def environment_in(root: Path) -> dict[str, str]:
    """Where nothing is this user's, and modules are compiled once."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BAI_", "PYTHON"))}
    return inherited | {
        "BAI_PROCESS_ROOT": str(root / "machine"),
        "XDG_CACHE_HOME": str(root / "cache"),
        "PYTHONPATH": str(ROOT),
        "NO_COLOR": "1",
    }


def quickstart(root: Path, runs: int) -> dict[str, object]:
    environment, folder = environment_in(root), root / "repository"
    shutil.copytree(ROOT / "examples" / "quickstart", folder)

    def bai(*words: str) -> float:
        return cpu_seconds((*BAI, *words), folder, environment)

    try:
        bai("apply", "--yes")
        waiting = measure(("get", "explain giant", "plan"), folder, environment, runs)
        (folder / "sessions" / "giant.yaml").unlink()
        bai("apply", "--yes")
        return {"oneWaits": waiting, "noneWaits": measure(QUICKSTART, folder, environment, runs)}
    finally:
        bai("destroy", "--yes")


def many(root: Path, nodes: int, sessions: int, runs: int) -> dict[str, object]:
    bench = Bench(root, nodes, sessions, (1,))
    bench.once()
    bench.loop.workspace.close()
    cluster = bench.folder / "cluster.yaml"
    cluster.write_text(cluster.read_text().replace("provider: fake", "provider: declared"))
    environment = environment_in(root) | {"BAI_STATE": str(root / "store.db")}
    found = measure(MANY, bench.folder, environment, runs)
    return {"nodes": nodes, "sessions": sessions, "commands": found}


def main() -> None:
    parser = parser_of("commands", __doc__)
    parser.add_argument(
        "--sessions", type=int, default=0, help="that are recorded, in place of the quickstart"
    )
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bai-commands-") as folder:
        root = Path(folder)
        found = (
            many(root, given.nodes, given.sessions, given.runs)
            if given.sessions
            else quickstart(root, given.runs)
        )
    show({"version": "bai.benchmark.commands/v1", "runs": given.runs, **found}, given.json)


if __name__ == "__main__":
    main()
