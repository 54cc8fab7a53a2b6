"""What it saves that `bai` imports a command only to run it, against importing all of them at the start.

    python -m benchmarks.lazy_commands --runs 15

Each runs in turn in a fresh interpreter; compared are the medians of CPU time. `as documented` is the lazy
group of Click's documentation, which imports a command whenever it is asked for, also for its line of help.
`public click` draws the same table of commands with Click itself, which Typer no longer depends on: a floor
for what leaving Typer could save. It is left out where click is not installed (`pip install click`).
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys

from bai.cli.main import COMMANDS
from benchmarks.results import parser_of, show
from benchmarks.startup import ROOT

LAZY = "from bai.cli.main import main\nmain()"
DOCUMENTED = """\
from bai.cli import main
from bai.cli.lazy_commands import load_command
main.MainGroup.get_command = lambda self, ctx, name: (
    load_command(main.COMMANDS[name][0]) if name in main.COMMANDS else None)
main.main()
"""
EAGER = """\
import bai.cli.main as main
from bai.cli.lazy_commands import load_command
for module, _ in main.COMMANDS.values():
    load_command(module)
main.main()
"""
CLICK = """\
import click
table = {table!r}
app = click.Group("bai", commands={{name: click.Command(name, help=line) for name, line in table}})
app()
"""
COMPLETION = {"_BAI_COMPLETE": "complete_bash", "COMP_WORDS": "bai p", "COMP_CWORD": "1"}


def cpu_ms(code: str, arguments: list[str], environment: dict[str, str]) -> float:
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
    )
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0
    return (usage.ru_utime + usage.ru_stime) * 1000


def measure(apps: dict[str, str], arguments: list[str], environment: dict[str, str], runs: int) -> object:
    samples: dict[str, list[float]] = {name: [] for name in apps}
    for number in range(runs + 1):
        for name, code in apps.items():
            taken = cpu_ms(code, arguments, environment)
            if number:  # The first run of each writes what Python compiles.
                samples[name].append(taken)
    medians = {name: statistics.median(found) for name, found in samples.items()}
    return {
        "cpuMs": {name: round(found, 1) for name, found in medians.items()},
        "ratio": {name: round(found / medians["bai"], 2) for name, found in medians.items()},
    }


def main() -> None:
    parser = parser_of("lazy_commands", __doc__)
    parser.add_argument("--runs", type=int, default=15)
    chosen = parser.parse_args()
    table = [(name, line) for name, (_, line) in COMMANDS.items()]
    ours = {"bai": LAZY, "as documented": DOCUMENTED, "all at the start": EAGER}
    floor = {"public click": CLICK.format(table=table)} if importlib.util.find_spec("click") else {}
    show(
        {
            "version": "bai.benchmark.lazy-commands/v1",
            "runs": chosen.runs,
            "bai --help": measure({**ours, **floor}, ["--help"], {}, chosen.runs),
            "completion": measure(ours, [], COMPLETION, chosen.runs),
            "bai version": measure(ours, ["version"], {}, chosen.runs),
        },
        chosen.json,
    )


if __name__ == "__main__":
    main()
