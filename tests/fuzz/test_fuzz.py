"""What a fuzzer once found stays mended; and a minute of each target, as many inputs on each machine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import FOUND, ROOT, TARGETS

MANY = 100


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_found_once_and_what_it_begins_with(name: str) -> None:
    """Of many documents that are alike each third one: whole campaigns begin with all of them."""
    feed = TARGETS[name].make()
    begins_with = list(TARGETS[name].seeds())
    for seed in begins_with[:: 3 if len(begins_with) > MANY else 1]:
        feed(seed)
    for path in sorted((FOUND / name).glob("*")):
        feed(path.read_bytes())


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.skipif(not importlib.util.find_spec("atheris"), reason="atheris has no wheel for this machine")
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found_in_a_minute(name: str, tmp_path: Path) -> None:
    words = ["--runs", str(TARGETS[name].minute), "--seed", "1", "--found", str(tmp_path)]
    words += ["--corpus", str(tmp_path / "corpus")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", name, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    found = {path.name: path.read_bytes()[:2000] for path in tmp_path.iterdir() if path.is_file()}
    assert done.returncode == 0, f"{done.stderr[-6000:]}\n{found}"
    assert "stat::number_of_executed_units: 0" not in done.stderr
