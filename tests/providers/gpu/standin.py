"""The stand-in for MPS's commands, first on the PATH, as a fixture."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.gpu.node import mps
from providers.gpu.node.daemon import MpsDaemon

DOUBLE = Path(__file__).with_name("double.py")


@pytest.fixture
def bin_(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of stand-ins; whatever is kept under its `mps` ends with the test. Its name is short, as
    sockets' are."""
    folder = Path(tempfile.mkdtemp(prefix="bai-mps-"))
    for name in ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server"):
        (folder / name).write_text(f"#!{sys.executable}\n{DOUBLE.read_text()}")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    yield folder
    root = folder / "mps"
    for gpu in mps.status({"root": str(root)}):
        (root / gpu / "log" / "stubborn").unlink(missing_ok=True)
        MpsDaemon(root / gpu, gpu).stop()
    shutil.rmtree(folder, ignore_errors=True)
