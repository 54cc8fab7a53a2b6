"""`make demo`'s script from beginning to end, on this machine, under a root of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
SHOWN = re.compile(r"```text\n\$ bai plan .*?(?P<what>\$ bai apply plan.json\n.*?)```", re.DOTALL)
"""What the README shows after the plan, which test_excerpts.py compares on a machine of that size."""


def numberless(text: str) -> list[str]:
    """Lines without what differs from machine to machine: folders, durations, numbers of processes, cores and
    CPUs, and the width of columns."""
    same = re.sub(r"\S*/plan\.json", "plan.json", text)
    same = re.sub(r"(?:\d+[hms])+|\d[\d,-]*", "N", same)
    return [line.rstrip() for line in re.sub(r" +", " ", same).splitlines()]


@pytest.mark.xdist_group("machine")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="the quickstart needs two CPUs")
def test_the_demo(tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("BAI_", "COV_"))}
    mine = {"BAI_PROCESS_ROOT": str(machine), "TMPDIR": str(tmp_path), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "scripts/demo.py"],
        cwd=ROOT,
        env=environment | mine | {"BAI_DEMO_PORT": str(free_port())},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "every process has the cores of the plan" in done.stdout
    assert "the second plan says: no changes" in done.stdout
    assert "no control group is left" in done.stdout
    shown = SHOWN.search((ROOT / "README.md").read_text("utf-8"))
    assert shown is not None
    # In whatever order: actions and containers go side by side.
    assert set(numberless(shown["what"])) - {"", "..."} <= set(numberless(done.stdout))
    assert list((machine / "kernels").iterdir()) == []
    assert not list(tmp_path.glob("bai-demo-*"))
