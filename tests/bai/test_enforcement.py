"""`bai nodes check --enforcement`, and plans that rest on it: with doubles of the driver, of MPS and of
HAMi-core."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from providers.gpu.node import mps
from tests.bai.conftest import CLUSTER, Repo, new_repo
from tests.providers.gpu.standin import bin_, build, install_smi

__all__ = ["bin_"]
GPU = "GPU-aaaa"
HARDWARE = f"""
  hardware:
    numaNodes: [{{id: 0, cpus: 0-3, memory: 32GiB}}]
    gpus: [{{id: {GPU}, index: 0, model: Stand-in, memory: 8GiB}}]
"""
BLIND = "2.1 GiB could be allocated under a limit of 2.0 GiB, and 8.0 GiB were shown"


@dataclass
class Node:
    """A repository of one node, this machine, with a GPU that is a double."""

    repo: Repo
    bin: Path

    def demand(self, means: str, *, gpu: bool = True) -> None:
        text, spec = CLUSTER, "spec: {resourceGroup: local, address: localhost}\n"
        if gpu:
            text = text.replace(spec, f"spec:\n  resourceGroup: local\n  address: localhost{HARDWARE}")
        options = f"process: {{hami: {self.bin}/libvgpu.so}}"
        text = text.replace("{provider: process}", f"{{provider: process, {options}}}")
        text = text.replace("{queue: fifo}", f"{{queue: fifo, fractional: {{enforcement: {means}}}}}")
        self.repo.write("cluster.yaml", text)

    def half(self) -> None:
        path = self.repo.session("half", "sleep", "1000")
        path.write_text(path.read_text().replace("64MiB", "64MiB, cuda.shares: 0.5"))

    def asked(self, what: str) -> int:
        """How often the driver was asked for this since the last call: `compute-apps` for each trial."""
        path = self.bin / "asked"
        count = path.read_text().count(what) if path.exists() else 0
        path.write_text("")
        return count


@pytest.fixture
def node(bin_: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    install_smi(bin_, GPU)
    build(bin_, "libcuda.c", "libcuda.so.1")
    build(bin_, "libvgpu.c", "libvgpu.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(bin_))
    repo = new_repo(tmp_path)
    with tempfile.TemporaryDirectory(prefix="bai-") as short:  # names of sockets are
        Path(short).chmod(0o755)
        repo.env["BAI_PROCESS_ROOT"] = f"{short}/p"
        yield Node(repo, bin_)
        left = mps.status({"root": f"{short}/p/mps"})
        assert [each for each in left.values() if each["pid"] or each["holders"]] == []


def test_the_command_says_what_holds(node: Node) -> None:
    node.demand("hami")
    said = node.repo("nodes", "check", "--enforcement")
    assert said.code == 0, said.out + said.err
    lines = [line.split() for line in said.out.splitlines()[:3]]
    assert [line[:4] for line in lines] == [
        ["NODE", "MEANS", "DEMANDED", "RESULT"],
        ["localhost", "mps", "no", "held"],
        ["localhost", "hami", "yes", "held"],
    ]
    [mps, hami, mig] = node.repo.ok("nodes", "check", "--enforcement", "--format", "json").json["nodes"]
    assert (mps["outcome"], hami["outcome"], mig["outcome"]) == ("held", "held", "missing")
    assert hami["version"].startswith(f"driver 580.159.03, {node.bin}/libvgpu.so of ")


def test_what_is_demanded_and_does_not_hold_is_exit_code_1(node: Node) -> None:
    build(node.bin, "libvgpu.c", "libvgpu.so", "-DBLIND")
    node.demand("mps")
    said = node.repo.ok("nodes", "check", "--enforcement", "localhost")
    assert f"localhost, hami: {BLIND}" in said.out
    node.demand("hami")
    assert node.repo("nodes", "check", "--enforcement", "localhost").code == 1


def test_a_machine_without_a_gpu_says_so(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    (node.bin / "nvidia-smi").unlink()
    monkeypatch.setenv("PATH", str(node.bin))
    node.demand("none", gpu=False)
    said = node.repo.ok("nodes", "check", "--enforcement")
    words = "it has nothing to enforce parts of GPUs with: nvidia-smi is not installed"
    assert said.out == f"localhost: {words}\n"
    node.demand("mps", gpu=False)
    said = node.repo("nodes", "check", "--enforcement")
    assert said.code == 1
    assert "localhost, mps: nvidia-smi is not installed" in said.out


def test_two_checks_in_one_are_refused(node: Node) -> None:
    said = node.repo("nodes", "check", "--enforcement", "--settle", "localhost")
    assert said.code == 1
    assert "--settle" in said.err


def test_a_plan_tries_once_and_again_after_any_change(node: Node) -> None:
    node.demand("hami")
    node.half()
    assert "create" in node.repo("plan").out
    assert node.asked("compute-apps") == 1
    assert "create" in node.repo("plan").out
    assert node.asked("compute-apps") == 0
    build(node.bin, "libvgpu.c", "libvgpu.so", "-DBLIND")
    said = node.repo("plan").out
    assert node.asked("compute-apps") == 1
    assert "fraction-not-enforced" in said
    assert "localhost: hami did not hold" in " ".join(said.split())
    assert BLIND in " ".join(said.split())
    node.repo("plan")
    assert node.asked("compute-apps") == 0
    assert f"no hami: hami did not hold: {BLIND}" in " ".join(node.repo("doctor").out.split())
    (node.bin / "driver").write_text("580.200")
    node.repo("plan")
    assert node.asked("compute-apps") == 1
    build(node.bin, "libvgpu.c", "libvgpu.so")
    assert "fraction-not-enforced" not in node.repo("plan").out


def test_the_command_tries_anew_what_a_plan_remembers(node: Node) -> None:
    node.demand("mps")
    node.half()
    log = Path(node.repo.env["BAI_PROCESS_ROOT"]) / "mps" / GPU / "log"
    log.mkdir(parents=True)
    (log / "broken").touch()
    assert "nvidia-cuda-mps-control does not start" in " ".join(node.repo("plan").out.split())
    (log / "broken").unlink()
    assert "fraction-not-enforced" in node.repo("plan").out
    node.repo.ok("nodes", "check", "--enforcement")
    assert "fraction-not-enforced" not in node.repo("plan").out
