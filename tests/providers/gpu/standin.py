"""The stand-in for MPS's commands, first on the PATH, as a fixture, and stand-ins for what drivers bring."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.gpu.node import mps
from providers.gpu.node.daemon import MpsDaemon
from tests.lab.cache import kept

DOUBLE = Path(__file__).with_name("double.py")


@pytest.fixture
def bin_(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of stand-ins; whatever is kept under its `mps` ends with the test. Its name is short, as
    sockets' are."""
    folder = Path(tempfile.mkdtemp(prefix="bai-mps-"))
    folder.chmod(0o755)
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


SMI = """#!/bin/sh
here=${0%/*}
echo "$1" >>"$here/asked"
# By the shell alone: it is asked often.
each() { while read -r gpu; do echo "$gpu, $1"; done <"$here/gpus"; }
read -r driver <"$here/driver" || :
read -r free <"$here/free" || :
case "$1" in
--query-gpu=uuid,compute_mode*) each "Default, Disabled, 9.0, $driver" ;;
--query-gpu=uuid,memory.free) each "$free MiB" ;;
--query-compute-apps=*) [ ! -s "$here/computing" ] || cat "$here/computing" ;;
*) exit 2 ;;
esac
"""


def install_smi(folder: Path, *gpus: str, driver: str = "580.159.03") -> None:
    """An nvidia-smi that knows these GPUs, of which 8 GiB are free; `computing` has who computes on them."""
    (folder / "nvidia-smi").write_text(SMI)
    (folder / "nvidia-smi").chmod(0o755)
    texts = {"gpus": "".join(f"{gpu}\n" for gpu in gpus), "driver": driver, "free": "8192", "computing": ""}
    for name, text in texts.items():
        (folder / name).write_text(text)


def build(folder: Path, source: str, name: str, *options: str) -> Path:
    """A library made of a file beside this one; skips without a compiler."""
    made = folder / name
    made.unlink(missing_ok=True)  # who has it open keeps what it was
    shutil.copyfile(_library(source, options) / "library", made)
    made.chmod(0o755)
    return made


@functools.cache
def _library(source: str, options: tuple[str, ...]) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the doubles of libraries")
    text = Path(__file__).with_name(source)
    key = hashlib.sha256(text.read_bytes() + repr(options).encode()).hexdigest()[:16]

    def draft(made: Path) -> None:
        made.mkdir()
        argv = [compiler, "-shared", "-fPIC", "-w", "-o", str(made / "library"), str(text), "-ldl", *options]
        subprocess.run(argv, check=True)

    return kept(f"gpu-standin-{key}", draft)
