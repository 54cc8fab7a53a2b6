"""A page followed word by word: all its shell blocks, one after the other, by somebody at a keyboard.

Where a reader looks until something has happened, or does what only the prose says, the page has a comment
that says so: `<!-- until: CONDITION -->`, `<!-- do: COMMAND -->`.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from providers.process.linux import procfs
from tests.harness.scripted_bai import scripted_bai

_PART = re.compile(
    r"<!-- until: (?P<until>.*?) -->\n|<!-- do: (?P<do>.*?) -->\n|```sh\n(?P<block>.*?)```", re.DOTALL
)
_PATIENCE = 90
ANSWERS = "yes\n" * 20


def script(text: str, left_out: tuple[str, ...] = ()) -> str:
    """All blocks as one script that ends with the first command that fails. `left_out`: lines, or beginnings
    of lines up to a remark, that are not run."""
    lines = ["set -e", "trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT"]
    for number, part in enumerate(_PART.finditer(text)):
        if part["until"] is not None:
            condition = part["until"]
            lines.append(
                f"for n in $(seq {4 * _PATIENCE}); do if {condition}; then break; fi; sleep 0.25; done\n"
                f"{condition} || {{ echo 'STILL NOT: block {number}'; cat ~/*.log; exit 1; }}"
            )
        else:
            lines.append(f"echo '=== {number}'\n{_without(part['do'] or part['block'], left_out)}")
    lines.append("echo '=== all done'")
    return "\n".join(lines) + "\n"


def _without(block: str, left_out: tuple[str, ...]) -> str:
    return "\n".join(line for line in block.split("\n") if line.partition("  #")[0].rstrip() not in left_out)


@dataclass(frozen=True)
class Guide:
    """Somebody with a home with nothing in it but git's settings, in a folder that looks like a checkout."""

    folder: Path
    home: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "home", self.folder / "home")
        self.home.mkdir()
        name = "[user]\n\tname = Ada\n\temail = ada@cluster.example\n"
        (self.home / ".gitconfig").write_text(name)
        checkout = self.folder / "checkout"
        checkout.mkdir()
        (checkout / ".venv").mkdir()
        (checkout / "examples").symlink_to(Path(__file__).parents[2] / "examples")

    def follow(self, text: str, left_out: tuple[str, ...] = ()) -> str:
        """What is printed; who is asked, types yes. Every block must come to its end."""
        environment = {
            "HOME": str(self.home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "NO_COLOR": "1", "COLUMNS": "200", "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1",
            "BAI_PROCESS_ROOT": str(self.folder / "machine"),
        }  # fmt: skip
        (self.folder / "script").write_text(script(text, left_out))
        keyboard, end = pty.openpty()
        os.write(keyboard, ANSWERS.encode())
        try:
            with (self.folder / "said").open("w") as said, scripted_bai(environment) as programs:
                (self.folder / "checkout" / ".venv" / "bin").symlink_to(programs)
                environment["PATH"] = f"{programs}:{environment['PATH']}"
                done = subprocess.run(
                    ["bash", str(self.folder / "script")], cwd=self.folder / "checkout", env=environment,
                    stdin=end, stdout=said, stderr=subprocess.STDOUT, timeout=900, check=False,
                )  # fmt: skip
        finally:
            os.close(keyboard)
            os.close(end)
        out = (self.folder / "said").read_text()
        assert done.returncode == 0 and out.rstrip().endswith("=== all done"), out
        return out

    def running(self) -> list[Path]:
        """Containers that are left."""
        return list((self.folder / "machine" / "kernels").iterdir())

    def close(self) -> None:
        """What runs below the folder ends."""
        for path in (self.folder / "machine").glob("kernels/*/state.json"):
            state = json.loads(path.read_text())
            for name in ("supervisor", "pid"):  # Exactly these: others may have their numbers by now.
                procfs.send(state.get(name) or 0, state.get(f"{name}_start") or 0, signal.SIGKILL)
