"""What one test does in a process is nothing to the next one there, nor to those of other processes.

Each process has a /run/bai of its own, where nodes keep what containers are given to read: tests of several
workers, and of several clones on one machine, do not meet there. What a test starts sees the same folder.
Forks are nothing to gRPC: it would begin threads in a child, whose files a terminal's fork then closes under
them, and abort it.
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
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"


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
