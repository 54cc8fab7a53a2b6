"""The way to GitOps, word by word: every shell block of docs/gitops.md, in a clean home, on this machine.

Only what cannot be the same for everybody is put in: free ports, and a database of the tests' own server.
Where a reader looks until something has happened, the page has a comment that says for what.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.process.linux import procfs
from tests.harness.ports import free_port
from tests.lab.postgres import Server

PAGE = Path(__file__).parents[2] / "docs" / "gitops.md"
PART = re.compile(r"<!-- until: (?P<until>.*?) -->\n|```sh\n(?P<block>.*?)```", re.DOTALL)
PATIENCE = 90
DATABASE = "postgresql://bai@db.example.com/bai"


def script(text: str) -> str:
    """All blocks as one script that ends with the first command that fails."""
    lines = ["set -e", "trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT"]
    for number, part in enumerate(PART.finditer(text)):
        if part["until"] is not None:
            condition = part["until"]
            lines.append(
                f"for n in $(seq {4 * PATIENCE}); do if {condition}; then break; fi; sleep 0.25; done\n"
                f"{condition} || {{ echo 'STILL NOT: block {number}'; cat ~/*.log; exit 1; }}"
            )
        else:
            lines.append(f"echo '=== {number}'\n{part['block']}")
    lines.append("echo '=== all done'")
    return "\n".join(lines) + "\n"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with nothing in it but git's settings; what runs below it ends with the test."""
    made = tmp_path / "home"
    made.mkdir()
    (made / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@cluster.example\n")
    yield made
    for path in (tmp_path / "machine").glob("kernels/*/state.json"):
        state = json.loads(path.read_text())
        for name in ("supervisor", "pid"):  # Exactly these: others may have their numbers by now.
            procfs.send(state.get(name) or 0, state.get(f"{name}_start") or 0, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("curl") or not shutil.which("openssl"), reason="needs curl and openssl")
def test_the_way_to_gitops(home: Path, tmp_path: Path, postgres: Server) -> None:
    text = PAGE.read_text(encoding="utf-8").replace(DATABASE, f"'{postgres.database()}'")
    for port in ("8080", "8081"):
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
    environment = {
        "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1",
        "BAI_PROCESS_ROOT": str(tmp_path / "machine"), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    (tmp_path / "script").write_text(script(text))
    with (tmp_path / "said").open("w") as said:
        done = subprocess.run(
            ["bash", str(tmp_path / "script")], cwd=home, env=environment, stdin=subprocess.DEVNULL,
            stdout=said, stderr=subprocess.STDOUT, timeout=900, check=False,
        )  # fmt: skip
    out = (tmp_path / "said").read_text()
    assert done.returncode == 0, out
    assert out.rstrip().endswith("=== all done"), out
    assert "Traceback" not in out + "".join(path.read_text() for path in home.glob("*.log"))
    assert "been here" in out and "hello from" in out
    assert "held there (the second one was a mistake)" in out
    assert list((tmp_path / "machine" / "kernels").iterdir()) == []
