"""docs/policies.md, word by word: every shell block of it, in a clean home, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.guide import script
from tests.harness.scripted_bai import scripted_bai

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


@pytest.mark.slow
def test_the_way_to_a_policy(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1",
        "BAI_PROCESS_ROOT": str(tmp_path / "machine"), "LANG": "C.UTF-8", "COLUMNS": "200",
    }  # fmt: skip
    with scripted_bai(environment) as programs:
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        done = subprocess.run(
            ["bash", "-c", script(PAGE.read_text(encoding="utf-8"))], cwd=home, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900,
            check=False,
        )  # fmt: skip
    assert done.returncode == 0 and done.stdout.rstrip().endswith("=== all done"), done.stdout
    assert done.stdout.count("exit code 1") == 3, done.stdout
    assert "Policy/care: 1 deletion in one plan, 0 at most" in done.stdout
    assert "Policy/nights: Session/demo/urgent: priorities above 50 are for operations" in done.stdout
    why = "until 2099-12-31: the demonstration is over"
    assert f"Policy/care: maxDeletions is overridden for Session/demo/hello {why}" in done.stdout
    assert f"Policy/care: maxDeletions, {why}" in done.stdout
