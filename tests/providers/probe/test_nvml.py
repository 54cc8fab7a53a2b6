"""NVML through ctypes, against a compiled stand-in with the driver's symbols, fed by NVIDIA's own mock
profiles.
"""

from __future__ import annotations

import functools
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from providers.probe import parse, zipapp
from schemas.hardware.model import Hardware
from tests.lab import nvml
from tests.lab.sysfs import Sysfs

PROFILES = Path(__file__).parents[2] / "data/topology/nvml-mock-profiles"


@functools.cache
def profile(name: str) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loaded: dict[str, Any] = yaml.load((PROFILES / f"{name}.yaml").read_text(), loader)
    return loaded


def one_gpu(**facts: Any) -> dict[str, Any]:
    gpu = {
        "uuid": "GPU-0",
        "name": "NVIDIA A100-SXM4-80GB",
        "pci": "00000000:01:00.0",
        "memory": 80 << 30,
        **facts,
    }
    return {"driver": "535.183.01", "cuda": 12020, "count": 1, "gpu": {0: gpu}}


def machine(root: Path, topology: dict[str, Any]) -> Sysfs:
    """The PCI tree of a profile: each GPU behind a root port of its own."""
    sysfs = Sysfs(root, cpus="0-7")
    sysfs.node(0, "0-3", 256, "10 21")
    sysfs.node(1, "4-7", 256, "21 10")
    for complex_ in topology["root_complexes"]:
        for at, address in enumerate(complex_["devices"]):
            path = f"{complex_['id']}/{complex_['id'][3:]}:{at + 1:02x}.0/{address.lower()}"
            sysfs.pci(path, kind=0x0302, vendor=0x10DE, numa=complex_["numa_node"], driver="nvidia")
    return sysfs


def _unpacked(folder: Path) -> Path:
    """The collector, for all tests of this process: from a folder, unlike from a zip, it is compiled once.
    That the zip runs is shown by `test_zipapp.py`, and in virtual machines."""
    made = folder / "collector"
    if not made.exists():
        with zipfile.ZipFile(io.BytesIO(zipapp.build())) as archive:
            archive.extractall(made)
    return made


def ask(
    tmp_path: Path, facts: dict[str, Any] | None, *, root: Path | None = None, old: bool = False
) -> Hardware:
    environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(nvml.library(old=old))}
    if facts is not None:
        (tmp_path / "facts").write_text(nvml.lines(facts))
        environment["FAKE_NVML"] = str(tmp_path / "facts")
    rooted = ["--nvml", "--root", str(root)] if root else []
    done = subprocess.run(
        [sys.executable, "-S", str(_unpacked(tmp_path.parent)), *rooted],
        env=environment,
        cwd=tmp_path,
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return parse(done.stdout)


@pytest.mark.parametrize(
    ("name", "links", "driver", "cuda"),
    [("h100", 18, "550.163.01", "12.4"), ("a100", 12, "550.163.01", "12.4")],
)
def test_an_hgx_board(tmp_path: Path, name: str, links: int, driver: str, cuda: str) -> None:
    known = profile(name)
    sysfs = machine(tmp_path / "root", known["pcie_topology"])
    found = ask(tmp_path, nvml.of_profile(known), root=sysfs.root)
    assert [gpu.id for gpu in found.gpus] == [device["uuid"] for device in known["devices"]]
    assert [gpu.pci for gpu in found.gpus] == [device["pci"]["bus_id"].lower() for device in known["devices"]]
    assert [gpu.numa_node for gpu in found.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {(gpu.model, gpu.memory, gpu.mig, gpu.healthy) for gpu in found.gpus} == {
        (
            known["device_defaults"]["name"],
            known["device_defaults"]["memory"]["total_bytes"],
            "disabled",
            True,
        )
    }
    assert len(found.links) == 28
    assert {(link.kind, link.count) for link in found.links} == {("NV", links)}
    assert found.nv_switches == len(known["nvlink"]["switches"])
    assert (found.software.nvidia_driver, found.software.cuda) == (driver, cuda)
    assert found.unknown == ()


def test_without_nvlink_the_pci_tree_tells_how_gpus_are_connected(tmp_path: Path) -> None:
    known = profile("l40s")
    sysfs = machine(tmp_path / "root", known["pcie_topology"])
    found = ask(tmp_path, nvml.of_profile(known), root=sysfs.root)
    assert found.nv_switches == 0
    near = {
        frozenset((a.id, b.id))
        for a in found.gpus
        for b in found.gpus
        if a.id != b.id and a.numa_node == b.numa_node
    }
    assert found.links
    for link in found.links:
        assert link.kind == ("PHB" if frozenset((link.a, link.b)) in near else "SYS")


def test_nvml_is_believed_about_gpus_before_the_pci_tree(tmp_path: Path) -> None:
    facts = one_gpu(ancestor={"gpu.1": 20})
    facts["gpu"][1] = {
        "uuid": "GPU-1",
        "name": "NVIDIA A100-SXM4-80GB",
        "pci": "00000000:02:00.0",
        "memory": 1 << 30,
    }
    facts["count"] = 2
    found = ask(tmp_path, facts)
    assert [(link.a, link.b, link.kind) for link in found.links] == [("GPU-0", "GPU-1", "PXB")]


def test_direct_links_are_counted_per_pair(tmp_path: Path) -> None:
    def gpu(at: int, *ends: int) -> dict[str, Any]:
        links = {n: {"state": 1, "pci": f"00000000:0{end + 1}:00.0", "type": 0} for n, end in enumerate(ends)}
        links[len(ends)] = {"state": 0}
        return {
            "uuid": f"GPU-{at}",
            "name": "Tesla V100-SXM2-16GB",
            "pci": f"00000000:0{at + 1}:00.0",
            "memory": 16 << 30,
            "link": links,
        }

    facts = {
        "driver": "470.1",
        "cuda": 11040,
        "count": 3,
        "gpu": {0: gpu(0, 1, 1, 2), 1: gpu(1, 0, 0), 2: gpu(2, 0)},
    }
    found = ask(tmp_path, facts)
    assert {(link.a, link.b): link.count for link in found.links} == {
        ("GPU-0", "GPU-1"): 2,
        ("GPU-0", "GPU-2"): 1,
    }


def test_mig_instances_have_profile_and_placement(tmp_path: Path) -> None:
    mig = {
        0: {
            "uuid": "MIG-a",
            "name": "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
            "instance": 1,
            "start": 4,
            "size": 4,
        },
        1: {"uuid": "MIG-b", "name": "NVIDIA A100-SXM4-80GB MIG 1c.2g.20gb"},
    }
    (gpu,) = ask(tmp_path, one_gpu(mig=1) | {"gpu": {0: {**one_gpu()["gpu"][0], "mig": 1}}}).gpus[:1]
    assert (gpu.mig, gpu.mig_devices) == ("enabled", ())
    text = nvml.lines(one_gpu()) + nvml.lines({"gpu": {0: {"mig": mig}}}) + "gpu.0.mig=1\n"
    facts = dict(line.split("=", 1) for line in text.splitlines())
    (gpu,) = ask(tmp_path, facts).gpus
    assert [(device.id, device.profile, device.start, device.size) for device in gpu.mig_devices] == [
        ("MIG-a", "3g.40gb", 4, 4),
        ("MIG-b", "1c.2g.20gb", None, None),
    ]


def test_mig_instances_that_the_driver_does_not_name_are_unknown(tmp_path: Path) -> None:
    mig = {
        0: {"uuid": "MIG-a", "name": "NVIDIA H200 MIG 1g.18gb"},
        1: {"uuid": "MIG-b", "name": "NVIDIA H200", "slices": 1, "computeSlices": 1, "memoryMb": 16384},
    }
    text = nvml.lines(one_gpu()) + nvml.lines({"gpu": {0: {"mig": mig}}}) + "gpu.0.mig=1\n"
    found = ask(tmp_path, dict(line.split("=", 1) for line in text.splitlines()))
    assert (found.gpus[0].mig, found.gpus[0].mig_devices) == ("enabled", ())
    assert "MIG instances of NVIDIA GPU 0: the driver does not name their profiles" in found.unknown


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"ecc": {1: {0: 3}}}, "3 uncorrected ECC errors"),
        ({"rows": {"failed": 1}}, "row remapping failed"),
        ({"rows": {"failed": 0, "pending": 1}}, "row remapping pending"),
        ({"retired": {1: 60}}, "60 pages retired"),
        ({"retired": {1: 0, "pending": 1}}, "page retirement pending"),
    ],
)
def test_an_unfit_gpu_is_reported_unhealthy(tmp_path: Path, facts: dict[str, Any], complaint: str) -> None:
    (gpu,) = ask(tmp_path, one_gpu(**facts)).gpus
    assert not gpu.healthy
    assert gpu.health[0].startswith(complaint)


def test_history_alone_does_not_make_a_gpu_unfit(tmp_path: Path) -> None:
    (gpu,) = ask(
        tmp_path,
        one_gpu(rows={"failed": 0, "corrected": 2, "uncorrected": 1}, retired={1: 5}, ecc={1: {0: 0}}),
    ).gpus
    assert (gpu.healthy, gpu.health) == (True, ())


def test_a_lost_gpu_is_named_and_the_others_stay(tmp_path: Path) -> None:
    facts = one_gpu()
    facts["count"], facts["gpu"][1] = 2, {"uuid": "!15"}
    found = ask(tmp_path, facts)
    assert [gpu.index for gpu in found.gpus] == [0]
    assert "NVIDIA GPU 1: NVML says GPU is lost" in found.unknown


def test_grace_memory_nodes_are_the_gpus(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path / "root", cpus="0-3")
    sysfs.node(0, "0-3", 480, "10 80")
    sysfs.node(1, "", 96, "80 10")
    sysfs.pci("pci0009:00/0009:00:00.0/0009:01:00.0", kind=0x0302, vendor=0x10DE, numa=0, driver="nvidia")
    found = ask(tmp_path, one_gpu(pci="00000009:01:00.0", numaNode=1), root=sysfs.root)
    assert [node.kind for node in found.numa_nodes] == ["dram", "gpu"]
    assert (found.gpus[0].pci, found.gpus[0].numa_node) == ("0009:01:00.0", 0)


def test_an_old_driver_lacks_functions_and_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    found = ask(tmp_path, nvml.of_profile(profile("a100")), old=True)
    assert len(found.gpus) == 8
    assert {(gpu.pci, gpu.mig, gpu.healthy) for gpu in found.gpus} == {(None, None, True)}
    assert found.software.nvidia_driver == "550.163.01"
    assert found.software.cuda is None
    assert "PCI address of NVIDIA GPU 0" in found.unknown


def test_a_library_without_a_driver_means_no_gpus_and_no_complaint(tmp_path: Path) -> None:
    found = ask(tmp_path, None)
    assert (found.gpus, [fact for fact in found.unknown if "NVML" in fact]) == ((), [])
