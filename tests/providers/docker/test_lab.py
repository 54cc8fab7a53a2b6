"""The lab itself: what a killed test process leaves is cleared away by the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.docker import Engines
from tests.lab.spaces import CONTROLLERS, _members, _processes, base, sweeping

pytestmark = pytest.mark.xdist_group("docker")
HOLD = """
import os, signal
from tests.lab.docker import Engines
engines = Engines()
engines(1)[0].docker("run", "-d", "bai-lab:1", "sleep", "1000")
print(engines.spaces.prefix, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_swept(engines: Engines) -> None:
    here = Path(__file__).parents[3]
    argv = [sys.executable, "-c", HOLD]
    done = subprocess.run(
        argv, cwd=here, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
        env={**os.environ, "PYTHONPATH": str(here)},
    )  # fmt: skip
    prefix = done.stdout.strip()
    assert prefix, done.stderr
    with sweeping():
        pass
    folder = base() / prefix
    assert not folder.exists()
    assert not list(Path("/run/netns").glob(f"{prefix}-*"))
    assert not list(CONTROLLERS.glob(f"*/{prefix}"))
    assert not list(_processes(folder)) and not list(_members(prefix))
    assert engines(1)[0].answers()
