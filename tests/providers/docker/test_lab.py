"""The lab itself: what a killed test process leaves is cleared away by the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.docker import Engines
from tests.lab.spaces import CONTROLLERS, _locked, _members, _processes, base, sweep

pytestmark = pytest.mark.xdist_group("docker")
HOLD = """
import signal
from tests.lab.docker import Engines
engines = Engines()
engines(1)[0].docker("run", "-d", "bai-lab:1", "sleep", "1000")
print(engines.spaces.prefix, flush=True)
signal.pause()
"""


def test_what_a_killed_process_left_is_swept(engines: Engines) -> None:
    here = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(here)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=here, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True,
    ) as held:  # fmt: skip
        try:
            assert held.stdout is not None
            prefix = held.stdout.readline().strip()
            assert prefix
            with _locked():  # Whoever else makes a lab would sweep as well, and take the name that is free.
                held.kill()
                held.wait()
                sweep()
                _assert_swept(prefix)
        finally:
            held.kill()
    assert engines(1)[0].answers()


def _assert_swept(prefix: str) -> None:
    folder = base() / prefix
    assert not folder.exists()
    assert not list(Path("/run/netns").glob(f"{prefix}-*"))
    assert not list(CONTROLLERS.glob(f"*/{prefix}"))
    assert not list(_processes(folder)) and not list(_members(prefix))
