"""The benchmark of parts of GPUs, as far as it goes without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import __main__ as benchmark
from benchmarks.gpu import probe, shares
from schemas.hardware.model import Gpu, MigDevice

ROW = "GPU-a, 0, NVIDIA H200, 00000000:19:00.0, 143771, Disabled\n"
GPU = Gpu(id="GPU-a", index=0, model="NVIDIA H200", pci="0000:19:00.0", memory=143771 << 20, mig="disabled")


def test_without_a_gpu_it_says_so_and_exits_with_2(tmp_path: Path) -> None:
    env = {**os.environ, "PATH": str(tmp_path)}
    argv = [sys.executable, "-m", "benchmarks.gpu"]
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(argv, env=env, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    assert "no NVIDIA GPU" in done.stdout


def test_the_probe_is_compared_field_by_field() -> None:
    assert probe.differences(probe.rows(ROW), (GPU,)) == []
    other = GPU.model_copy(update={"memory": 80 << 30, "pci": "0000:1a:00.0"})
    assert len(probe.differences(probe.rows(ROW), (other,))) == 2
    assert len(probe.differences(probe.rows(ROW), ())) == 1
    assert len(probe.differences([], (GPU,))) == 1


def test_achieved_is_compared_with_asked() -> None:
    parts = shares.fractions(GPU, [0.5, 0.3])
    alone = {"rate": 1000.0}
    got = {
        part.name: {"memory": part.memory, "rate": 1000 * part.compute, "multiprocessors": 66, "late": 0.0}
        for part in parts
    }
    result = {"probe": [], "gpus": [], "notMeasured": {}, "mps": shares.compared(parts, got, alone)}
    assert benchmark.within(result)
    got["part-2"]["rate"] = 320.0
    result["mps"] = shares.compared(parts, got, alone)
    assert not benchmark.within(result)


def test_what_could_not_be_measured_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A GPU that is only in a file: the probe does not know it, and the load does not run."""
    result = {
        "probe": ["nvidia-smi has GPU-a, the probe has not"],
        "gpus": [],
        "notMeasured": {"mps": "no CUDA"},
    }
    assert not benchmark.within(result)
    benchmark.show(result)
    said = capsys.readouterr().out
    assert "probe: nvidia-smi has GPU-a" in said and "mps: not measured: no CUDA" in said
    assert "not within" in said


def test_instances_are_parts_by_their_slices() -> None:
    devices = (MigDevice(id="MIG-1", profile="1g.18gb"), MigDevice(id="MIG-2", profile="3g.71gb"))
    split = GPU.model_copy(update={"mig": "enabled", "mig_devices": devices})
    found = shares.instances(split, 4)
    assert [(part.slot, part.compute) for part in found] == [
        ("cuda.mig.1g.18gb", 0.25),
        ("cuda.mig.3g.71gb", 0.75),
    ]


def test_the_documents_it_writes_are_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU the plan says that it cannot be placed, and nothing runs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(shares.NotMeasured, match="not placed: Session/bench/part-1: group gpus demands mps"):
        shares.together(tmp_path / "work", "mps", shares.fractions(GPU, [0.5]), 1.0)
