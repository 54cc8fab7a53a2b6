"""How busy GPUs are, through the real binding and a stand-in of NVIDIA's library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from providers.process import gpu_usage
from tests.lab import nvml

ROOT = Path(__file__).parents[3]
ASK = """
import json, sys
from providers.process import gpu_usage
found = gpu_usage.measure_gpus(sys.argv[1:])
print(json.dumps({name: [use.busy, use.memory] for name, use in found.items()}))
"""
FACTS = {
    "count": 2,
    "gpu": {
        0: {"uuid": "GPU-a", "memory": 80 << 30, "memoryUsed": 5 << 30, "busy": 93},
        1: {"uuid": "GPU-b", "memory": 80 << 30, "memoryUsed": 0, "busy": "!15"},
    },
}


def ask(tmp_path: Path, *devices: str, library: Path | None) -> dict[str, list[int | None]]:
    (tmp_path / "facts").write_text(nvml.lines(FACTS))
    environment = {**os.environ, "FAKE_NVML": str(tmp_path / "facts")}
    if library is not None:
        environment["LD_LIBRARY_PATH"] = str(library)
    done = subprocess.run(
        [sys.executable, "-c", ASK, *devices],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[int | None]] = json.loads(done.stdout)
    return found


def test_a_gpus_use_is_what_the_library_says(tmp_path: Path) -> None:
    found = ask(tmp_path, "GPU-a", "GPU-b", "GPU-nobodys", library=nvml.library())
    assert found == {"GPU-a": [93, 5 << 30], "GPU-b": [None, 0]}


def test_without_a_library_nothing_is_known(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "libnvidia-ml.so.1").write_bytes(b"no library")
    assert ask(tmp_path, "GPU-a", library=empty) == {}


def test_nothing_is_asked_for_no_devices() -> None:
    assert gpu_usage.measure_gpus([]) == {}
