"""What the command costs before it does anything: `bai --help` against a Typer app with two commands.

    python -m benchmarks.startup --runs 20 --json result.json

All run in turn, each in a fresh interpreter; compared are the medians of CPU time (user and system), which
other work on the machine disturbs least. Two yardsticks: Typer as it comes (help drawn by rich), and plain.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.measured_command import run_measured
from benchmarks.results import keep

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1.2
APP = """\
import typer
app = typer.Typer({options})
@app.command()
def first(name: str = "x"):
    "The first command."
@app.command()
def second(count: int = 1):
    "The second command."
app()
"""


def once(argv: list[str]) -> tuple[float, float]:
    """CPU and wall seconds of one run."""
    found = run_measured(argv, ROOT)
    return found.cpu, found.wall


def measure(runs: int) -> dict[str, object]:
    """Medians in milliseconds and the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        apps = {"typer": "", "typer, plain help": "rich_markup_mode=None"}
        commands = {"bai": [sys.executable, "-c", "from bai.cli.main import main; main()", "--help"]}
        for at, (name, options) in enumerate(apps.items()):
            path = Path(folder) / f"two{at}.py"
            path.write_text(APP.format(options=options))
            commands[name] = [sys.executable, str(path), "--help"]
        for argv in commands.values():
            once(argv)
        samples: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, argv in commands.items():
                samples[name].append(once(argv))
    cpu = {name: statistics.median(each for each, _ in found) * 1000 for name, found in samples.items()}
    wall = {name: statistics.median(each for _, each in found) * 1000 for name, found in samples.items()}
    return {
        "version": "bai.benchmark.startup/v1",
        "runs": runs,
        "cpuMs": {name: round(value, 1) for name, value in cpu.items()},
        "wallMs": {name: round(value, 1) for name, value in wall.items()},
        "ratio": round(cpu["bai"] / cpu["typer"], 3),
        "ratioPlain": round(cpu["bai"] / cpu["typer, plain help"], 3),
        "limit": LIMIT,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Start-up of bai against a two-command Typer app.")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    result = measure(chosen.runs)
    cpu, wall = result["cpuMs"], result["wallMs"]
    assert isinstance(cpu, dict) and isinstance(wall, dict)
    for name in cpu:
        print(f"{name:20} {cpu[name]:7.1f} ms CPU {wall[name]:7.1f} ms wall")
    print(f"ratio {result['ratio']} (plain help: {result['ratioPlain']}), at most {LIMIT}")
    keep(result, chosen.json)
    return 0 if float(str(result["ratio"])) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
