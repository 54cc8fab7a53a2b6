"""Each process that runs tests has a /run/bai of its own, where nodes keep what containers are given to read.

Tests of several workers, and of several clones on one machine, do not meet there. What a test starts sees the
same folder as the test.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from providers.docker.container.runtime_files import FOLDERS

PLACE = Path(FOLDERS[0]).parent
_CLONE_NEWNS = 0x20000


def pytest_configure(config: pytest.Config) -> None:
    only_hands_out = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if os.geteuid() or only_hands_out or shutil.which("mount") is None:
        return
    if ctypes.CDLL(None).unshare(_CLONE_NEWNS):
        return  # a container whose root may not: it is alone in there
    _mount("--make-rslave", "/")
    PLACE.mkdir(mode=0o755, parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", str(PLACE))


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, stdin=subprocess.DEVNULL)
