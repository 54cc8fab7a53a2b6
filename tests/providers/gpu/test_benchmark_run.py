"""The whole benchmark on doubles of a card, of MPS and of libcuda: only its figures are made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import providers.probe
from benchmarks.gpu import __main__ as benchmark
from benchmarks.gpu import shares
from providers.process.sandbox import bubblewrap
from schemas.hardware.model import Gpu
from tests.providers.gpu.standin import bin_, build

__all__ = ["bin_"]
GPU = "GPU-11111111-2222-3333-4444-555555555555"
SMI = """#!/bin/sh
case "$1" in
*compute_mode*) echo "{0}, Default, Disabled, 9.0, 580.95.05" ;;
*memory.free*) echo "{0}, 8192 MiB" ;;
*compute-apps*) ;;
-q)
    echo "<nvidia_smi_log><driver_version>580.95.05</driver_version>"
    echo "<gpu id='00000000:19:00.0'><uuid>{0}</uuid></gpu></nvidia_smi_log>" ;;
*) echo "{0}, 0, Stand-in, 00000000:19:00.0, 8192, Disabled" ;;
esac
"""


@pytest.fixture
def card(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that nvidia-smi lists, the probe finds and libcuda divides."""
    build(bin_, "libcuda.c", "libcuda.so.1")
    (bin_ / "nvidia-smi").write_text(SMI.format(GPU))
    (bin_ / "nvidia-smi").chmod(0o755)
    gpu = Gpu(
        id=GPU, index=0, model="Stand-in", pci="0000:19:00.0", memory=8 << 30, mig="disabled", numa_node=0
    )
    hardware = providers.probe.probe_local().model_copy(update={"gpus": (gpu,)})
    monkeypatch.setattr(providers.probe, "probe_local", lambda: hardware)
    monkeypatch.setattr(bubblewrap, "sandbox_problem", lambda: "the double of libcuda is in no system folder")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(bin_))
    monkeypatch.setattr(shares, "WAIT", 10.0)


def test_it_measures_what_each_session_gets(
    card: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "result.json"
    words = ["benchmarks.gpu", "--shares", "0.5", "0.25", "--seconds", "1", "--json", str(result)]
    monkeypatch.setattr("sys.argv", words)
    code = benchmark.main()
    said = capsys.readouterr().out
    found = json.loads(result.read_text())
    assert (found["probe"], found["notMeasured"]) == ([], {}), said
    assert "agrees with nvidia-smi on 1 GPU(s)" in said
    asked = [(line["session"], line["askedMemory"], line["memoryRatio"]) for line in found["mps"]]
    assert asked == [("part-1", 4 << 30, 1.0), ("part-2", 2 << 30, 1.0)]
    assert [line["multiprocessors"] for line in found["mps"]] == [50, 25]
    assert found["session"].keys() == {"memory", "rate", "copy"}
    assert found["session"]["memory"] == 1.0
    # Two speeds of a machine with other work: how they compare is for `within` to judge.
    assert all(line["gotCompute"] > 0 for line in found["mps"])
    assert code == (0 if benchmark.within(found) else 1)


def test_it_tries_parts_without_a_repository(
    card: None,
    bin_: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    library = build(bin_, "libvgpu.c", "libvgpu.so", "-DBLIND")
    result = tmp_path / "result.json"
    words = ["benchmarks.gpu", "--selftest", "--hami", str(library), "--json", str(result)]
    monkeypatch.setattr("sys.argv", words)
    assert benchmark.main() == 1
    said = capsys.readouterr().out
    found = {means: each["outcome"] for means, each in json.loads(result.read_text())["means"].items()}
    assert found == {"mps": "held", "hami": "failed", "mig": "missing"}, said
    assert "hami: failed: 2.1 GiB could be allocated under a limit of 2.0 GiB" in said
    build(bin_, "libvgpu.c", "libvgpu.so")
    assert benchmark.main() == 0
