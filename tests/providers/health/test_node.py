"""What is read on a machine: from copies of machines' files, from NVIDIA's library, from nvidia-smi."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from providers.health import ExpectedGpu, ExpectedNode, NodeHealth
from providers.health.facts import MachineFacts
from providers.health.metrics import HELP, health_metrics
from providers.health.node import kernel_log
from providers.health.node.files import Tree
from providers.health.node.kernel_log import MARK
from providers.health.node.smi import active_links, parse
from providers.health.query import query_facts, query_health, settle_log
from providers.health.rules import judge
from providers.machines.local import LocalMachine
from schemas.problems.errors.node import MachineRefused
from tests.lab import nvml
from tests.lab.sshd import SshdNodes
from tests.providers.health.machine_copy import MachineCopy

DATA = Path(__file__).parents[2] / "data"
QUERIES = DATA / "topology/nvidia-smi-qx"
EXPECTED = ExpectedNode(
    gpus=(ExpectedGpu("0000:41:00.0", 0), ExpectedGpu("0000:61:00.0", 1)),
    switches=1,
    ports={"mlx5_0": 400_000},
    engine="docker",
    cdi=True,
)


@pytest.fixture
def copy(tmp_path: Path) -> MachineCopy:
    return MachineCopy(tmp_path / "root")


def codes(copy: MachineCopy, expected: ExpectedNode = EXPECTED) -> dict[str, str]:
    """Code → device, without what only a driver that answers could say."""
    found = judge(query_facts(LocalMachine("n"), str(copy.root)), expected)
    return {one.code: one.device for one in found}


# The machine's own files


def test_a_healthy_copy_is_understood_as_a_whole(copy: MachineCopy) -> None:
    seen = query_facts(LocalMachine("n"), str(copy.root))
    software = seen.software
    assert (software.loaded, software.on_disk, software.library) == ("550.90.07",) * 3
    assert software.packages == {"nvidia-fabricmanager-550": "550.90.07-1"}
    assert [(one.release, one.nvidia) for one in software.kernels] == [("6.1.0-21-amd64", True)]
    assert [(one.pci, one.what, one.driver) for one in seen.pci] == [
        ("0000:41:00.0", "gpu", "nvidia"),
        ("0000:61:00.0", "gpu", "nvidia"),
        ("0000:c1:00.0", "switch", "nvidia"),
    ]  # fmt: skip
    assert [(one.devices, one.missing) for one in seen.cdi] == [(("0", "1"), ())]
    assert [(port.device, port.state, port.rate, port.layer) for port in seen.rdma] == [
        ("mlx5_0", "ACTIVE", 400_000, "infiniband")
    ]
    assert (seen.mounts.there, seen.mounts.missing) == (("/data",), ())
    assert [(one.controller, one.corrected) for one in seen.memory] == [("mc0", 3)]
    assert (seen.log.problem, seen.log.xids, seen.synchronised) == ("", (), True)
    # Nobody answers for the driver here, so it is not said to be well.
    assert codes(copy).keys() - {"disk-filling", "disk-full"} == {"driver-problem"}


def test_errors_of_gpus_are_read_from_the_kernels_log(copy: MachineCopy) -> None:
    copy.log(
        "NVRM: GPU at PCI:0000:41:00: GPU-5b1f6f0c-4a2b-7f4e-9d3c-0c1b2a394857",
        "NVRM: Xid (PCI:0000:41:00): 31, pid=2718, name=python, Ch 00000008, intr 00000000. MMU Fault",
        "NVRM: Xid (PCI:0000:61:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (0000:61:00): 79, GPU has fallen off the bus.",
        "EXT4-fs (nvme0n1p2): Remounting filesystem read-only",
        "mce: [Hardware Error]: Machine check events logged",
    )
    log = query_facts(LocalMachine("n"), str(copy.root)).log
    assert [(one.pci, one.xid, one.count, one.ago) for one in log.xids] == [
        ("0000:41:00", 31, 1, 4199.0), ("0000:61:00", 79, 2, 4197.0),
    ]  # fmt: skip
    assert log.read_only == ("EXT4-fs (nvme0n1p2): Remounting filesystem read-only",)
    assert log.machine_checks == 0, "that line alone says nothing"
    found = judge(query_facts(LocalMachine("n"), str(copy.root)), EXPECTED)
    fatal = next(one for one in found if one.code == "gpu-xid-fatal")
    assert fatal.device == "0000:61:00.0"
    assert fatal.what == "Xid 79 (the GPU has fallen off the bus), 2 times, last 69 min ago"


def test_errors_from_before_the_driver_was_loaded_or_they_were_settled_count_no_more(
    copy: MachineCopy,
) -> None:
    line = (
        "NVRM: Xid (PCI:0000:61:00): 119, pid=1, Timeout after 6s of waiting for RPC response from GPU1 GSP!"
    )
    copy.log(line)
    assert codes(copy)["gpu-xid-fatal"] == "0000:61:00.0"
    copy.log("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build")
    assert "gpu-xid-fatal" not in codes(copy)
    copy.log(line)
    assert "gpu-xid-fatal" in codes(copy)
    copy.log("bai: GPU errors before this line are settled")
    assert "gpu-xid-fatal" not in codes(copy)


def test_the_mark_is_written_or_it_is_said_why_not(copy: MachineCopy) -> None:
    machine = LocalMachine("n")
    settle_log(machine, str(copy.root))
    assert MARK in (copy.root / "dev/kmsg").read_text()
    (copy.root / "dev/kmsg").unlink()
    (copy.root / "dev/kmsg").mkdir()
    with pytest.raises(MachineRefused, match="is a directory"):
        settle_log(machine, str(copy.root))


@pytest.mark.skipif(not os.access("/dev/kmsg", os.W_OK), reason="root alone writes the kernel's log")
def test_the_kernels_own_log_takes_a_line() -> None:
    """It is a device, which takes less than a file does. The line itself means nothing."""
    kernel_log.write_line(Tree(), "bai: a test of what writes into the kernel's log")


def test_what_differs_in_files_is_found(copy: MachineCopy) -> None:
    copy.write("modinfo/nvidia", "560.35.03")
    copy.write("lib/modules/6.1.0-25-amd64/modules.dep", "kernel/fs/ext4/ext4.ko:")
    copy.write("proc/mountinfo", "31 1 8:1 / / rw - ext4 /dev/sda1 rw")
    copy.write("synchronised", "no")
    copy.write("units/docker", "failed")
    copy.write("run/reboot-required", "")
    copy.write("sys/devices/system/edac/mc/mc0/ue_count", "2")
    copy.write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
    copy.write("var/lib/dpkg/status", "Package: nvidia-fabricmanager-550\nStatus: install ok installed\n"
               "Version: 550.54.15-1\n")  # fmt: skip
    copy.cdi("0", "1", paths=("/usr/lib/x86_64-linux-gnu/libcuda.so.535.1",))
    (copy.root / "dev/kmsg").unlink()
    found = codes(copy)
    assert found.keys() >= {
        "driver-newer-on-disk", "driver-missing-for-kernel", "kernel-newer-installed", "mount-missing",
        "clock-unsynchronised", "engine-down", "reboot-required", "memory-uncorrected", "rdma-down",
        "fabricmanager-version", "cdi-stale", "log-unreadable",
    }  # fmt: skip
    assert found["mount-missing"] == "/data"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_devices_that_systemd_would_not_find_again(copy: MachineCopy) -> None:
    device = copy.root / "dev/nvidiactl"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(195, 255))
    assert codes(copy)["device-links-missing"] == ""
    copy.write("dev/char/195:255", "")
    assert "device-links-missing" not in codes(copy)


def test_a_gpu_that_left_the_bus_or_is_held_by_another_driver(copy: MachineCopy) -> None:
    (copy.root / "sys/bus/pci/devices/0000:41:00.0/config").write_bytes(b"\xff" * 64)
    folder = copy.root / "sys/bus/pci/devices/0000:61:00.0/driver"
    folder.unlink()
    (copy.root / "sys/bus/pci/drivers/nouveau").mkdir()
    folder.symlink_to(copy.root / "sys/bus/pci/drivers/nouveau")
    found = codes(copy)
    assert found["gpu-lost"] == "0000:41:00.0"
    assert found["gpu-unbound"] == "0000:61:00.0"


@pytest.mark.xdist_group("sshd")
def test_nodes_are_asked_over_ssh_together(copy: MachineCopy, sshd_nodes: SshdNodes) -> None:
    from providers.machines.ssh.machine import SshMachine

    one = SshMachine(sshd_nodes(1)[0].endpoint())
    away = sshd_nodes.private()
    away.kill()
    copy.log("NVRM: Xid (PCI:0000:61:00): 48, pid=1, DBE (double bit error) ECC Error")
    machines = {"one": lambda: one, "away": lambda: SshMachine(away.endpoint())}
    found = query_health(machines, {"one": EXPECTED}, str(copy.root))
    whats = [one.what for one in found["one"].findings if one.device == "0000:61:00.0"]
    assert [what[:35] for what in whats] == ["Xid 48 (double-bit ECC error), once"]
    assert (found["away"].facts, found["away"].unfit) == (None, {})
    assert "connection refused" in found["away"].problem
    one.close()


# nvidia-smi


@pytest.mark.parametrize("name", sorted(path.name for path in QUERIES.glob("*.xml")))
def test_captures_of_real_gpus_are_well(name: str) -> None:
    state = parse((QUERIES / name).read_text())
    seen = MachineFacts.model_validate({"gpus": state, "software": {"loaded": state["driver"]}})
    assert seen.gpus.driver and seen.gpus.devices and not seen.gpus.problem
    gpus = tuple(ExpectedGpu(one.uuid, one.index, one.pci) for one in seen.gpus.devices)
    assert [one for one in judge(seen, ExpectedNode(gpus=gpus)) if one.severity == "critical"] == []
    assert all(one.temperature and one.width_most and one.clock_most for one in seen.gpus.devices)


def smi(name: str, *changes: tuple[str, str]) -> dict[str, str]:
    """Code → what of the first GPU of a capture with some of its text changed."""
    text = (QUERIES / name).read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    seen = MachineFacts.model_validate({"gpus": parse(text), "software": {"loaded": "580.105.08"}})
    first = seen.gpus.devices[0]
    found = judge(seen, ExpectedNode(gpus=(ExpectedGpu(first.uuid, 0, first.pci),)))
    return {one.code: one.what for one in found if one.device == first.uuid}


@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        ("gpu-rows-pending", "<remapped_row_pending>No<", "<remapped_row_pending>Yes<"),
        ("gpu-rows-failed", "<remapped_row_failure>No<", "<remapped_row_failure>Yes<"),
        ("gpu-ecc-uncorrected", "<dram_uncorrectable>0<", "<dram_uncorrectable>3<"),
        ("gpu-sram-threshold", "<sram_threshold_exceeded>No<", "<sram_threshold_exceeded>Yes<"),
        ("gpu-recovery", "<gpu_recovery_action>None<", "<gpu_recovery_action>Reset<"),
        ("gpu-persistence-off", "<persistence_mode>Enabled<", "<persistence_mode>Disabled<"),
        ("gpu-pcie-width", "<current_link_width>16x<", "<current_link_width>8x<"),
        ("gpu-ecc-pending", "<pending_ecc>Enabled<", "<pending_ecc>Disabled<"),
        ("gpu-mig-pending", "<pending_mig>Disabled<", "<pending_mig>Enabled<"),
        (
            "gpu-slowed",
            "hw_thermal_slowdown>Not Active<",
            "hw_thermal_slowdown>Active<",
        ),
    ],
)
def test_a_capture_made_worse(code: str, before: str, after: str) -> None:
    assert code not in smi("qx-h100.xml")
    assert code in smi("qx-h100.xml", (before, after))


def test_what_nvidia_smi_says_of_a_lost_gpu() -> None:
    line = "Unable to determine the device handle for GPU0000:41:00.0: GPU is lost.  Reboot the system\n"
    state = parse(line + (QUERIES / "qx-l40s.xml").read_text())
    assert [one["pci"] for one in state["devices"]][-1] == "0000:41:00.0"
    seen = MachineFacts.model_validate({"gpus": state, "software": {"loaded": state["driver"]}})
    found = judge(seen, ExpectedNode(gpus=(ExpectedGpu("GPU-x", 4, "0000:41:00.0"),)))
    assert [(one.code, one.device) for one in found if one.severity == "critical"] == [("gpu-lost", "GPU-x")]
    broken = parse("Failed to initialize NVML: Driver/library version mismatch\n")
    assert broken["problem"].startswith("Failed to initialize NVML")


def test_links_that_are_up_are_counted() -> None:
    first = "GPU 0: NVIDIA H100 (UUID: GPU-a)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
    assert active_links(f"{first}GPU 1: x\n\t Link 0: 1 GB/s\n") == {0: 1, 1: 1}


def test_nvidia_smi_is_asked_where_the_library_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: MachineCopy
) -> None:
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" = -q ] && cat {QUERIES}/qx-h100.xml\nexit 0\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    gpus = query_facts(LocalMachine("n"), str(copy.root)).gpus
    assert (gpus.source, gpus.driver, len(gpus.devices)) == ("nvidia-smi", "580.105.08", 8)
    program.write_text("#!/bin/sh\nexit 9\n")
    assert query_facts(LocalMachine("n"), str(copy.root)).gpus.problem == "nvidia-smi ends with 9"


# NVIDIA's library


def library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, facts: dict[str, Any], *, old: bool = False
) -> None:
    (tmp_path / "facts").write_text(nvml.lines(facts))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml.library(old=old)))
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "facts"))


def board(**second: Any) -> dict[str, Any]:
    """NVIDIA's own mock profile of eight H100, with the second GPU as told."""
    profile = yaml.safe_load((DATA / "topology/nvml-mock-profiles/h100.yaml").read_text())
    facts = nvml.of_profile(profile)
    more = {
        "persistence": 1, "eccMode": 1, "width": 16, "widthMost": 16, "speed": 5, "speedMost": 5,
        "temperature": 31, "temperatureSlows": 87, "slowed": 1, "performance": 0, "clock": 1980,
        "clockMost": 1980, "milliwatts": 71500, "field": {230: 0}, "fabric": {"state": 3},
    }  # fmt: skip
    for index, gpu in facts["gpu"].items():
        gpu.update(more)
        gpu["rows"].update(uncorrected=0)
        if index == 1:
            gpu.update(second)
    return facts


def asked(copy: MachineCopy, facts: dict[str, Any]) -> NodeHealth:
    """The health of a node of which these GPUs are recorded."""
    gpus = tuple(
        ExpectedGpu(gpu["uuid"], index, gpu["pci"], len(gpu["link"])) for index, gpu in facts["gpu"].items()
    )
    for gpu in gpus:
        copy.pci(gpu.pci.lower(), 0x030200)
    expected = ExpectedNode(gpus=gpus, switches=4)
    return query_health({"n": lambda: LocalMachine("n")}, {"n": expected}, str(copy.root))["n"]


def test_the_library_tells_of_a_healthy_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: MachineCopy
) -> None:
    copy.cdi()
    for address in ("0000:41:00.0", "0000:61:00.0"):  # other GPUs are recorded here
        (copy.root / f"sys/bus/pci/devices/{address}/vendor").write_text("0x8086\n")
    facts = board()
    library(monkeypatch, tmp_path, facts)
    health = asked(copy, facts)
    assert health.facts is not None
    assert (health.facts.gpus.source, len(health.facts.gpus.devices)) == ("nvml", 8)
    one = health.facts.gpus.devices[3]
    assert (one.links, one.width, one.temperature, one.watts, one.fabric) == (18, 16, 31, 71.5, "completed")
    assert (one.recovery, one.slowed, one.uncorrected, one.rows_pending) == ("none", (), 0, False)
    assert [each for each in health.findings if each.code.startswith(("gpu", "driver"))] == []


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("gpu-ecc-uncorrected", {"ecc": {1: {0: 2}}}),
        ("gpu-rows-pending", {"rows": {"failed": 0, "pending": 1}}),
        ("gpu-recovery", {"field": {230: 1}}),
        ("gpu-fabric", {"fabric": {"state": 3, "status": 999}}),
        ("gpu-pcie-width", {"width": 4}),
        ("gpu-hot", {"temperature": 88}),
        ("gpu-slowed", {"slowed": 8 + 64}),
        ("gpu-persistence-off", {"persistence": 0}),
        ("gpu-nvlink-down", {"link": {0: {"state": 1}, 1: {"state": 0}}}),
        ("gpu-pages-pending", {"retired": {1: 2, "pending": 1}}),
    ],
)
def test_a_board_with_one_bad_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: MachineCopy, code: str, changes: dict[str, Any]
) -> None:
    good, worse = board(), board(**changes)
    library(monkeypatch, tmp_path, worse)
    found = [one for one in asked(copy, good).findings if one.code == code]
    assert [one.device for one in found] == [good["gpu"][1]["uuid"]]


def test_a_gpu_that_the_library_cannot_open_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: MachineCopy
) -> None:
    facts = board()
    broken = {**facts, "gpu": {**facts["gpu"], 1: {"uuid": "!15"}}}
    library(monkeypatch, tmp_path, broken)
    health = asked(copy, facts)
    # Its place on the bus is not told any more: it is the one that is missing.
    assert facts["gpu"][1]["uuid"] in health.unfit


@pytest.mark.parametrize(("init", "words"), [(18, "driver/library version mismatch"), (9, "not loaded")])
def test_a_library_that_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: MachineCopy, init: int, words: str
) -> None:
    library(monkeypatch, tmp_path, {"init": init})
    health = asked(copy, board())
    assert health.facts is not None and words in health.facts.gpus.problem
    assert len(health.unfit) == 8


def test_a_driver_that_hangs_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: MachineCopy
) -> None:
    library(monkeypatch, tmp_path, {"init": -1})
    code = "from providers.health.node import main; main._SECONDS = 0.5; print(main.serve({})['gpus'])"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, text=True, capture_output=True, timeout=60,
        stdin=subprocess.DEVNULL, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    hangs = {"source": "nvml", "problem": "the driver did not answer within 0.5 s", "hangs": True}
    assert done.stdout.strip() == str(hangs)


def test_an_old_driver_tells_what_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: MachineCopy
) -> None:
    facts = board(ecc={1: {0: 1}})
    library(monkeypatch, tmp_path, facts, old=True)
    seen = query_facts(LocalMachine("n"), str(copy.root)).gpus.devices[1]
    assert (seen.uncorrected, seen.links, seen.recovery, seen.mig) == (1, None, "", None)


# Values


def test_every_metric_is_described_and_comes_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: MachineCopy
) -> None:
    facts = board(replays=3, ecc={1: {0: 0, 1: 7}, 0: {0: 5}})
    library(monkeypatch, tmp_path, facts)
    address = facts["gpu"][1]["pci"].lower()
    copy.log(f"NVRM: Xid (PCI:{address[:-2]}): 31, pid=1")
    copy.log(f"NVRM: Xid (PCI:{address[:-2]}): 62, pid=1")
    found = list(health_metrics([asked(copy, facts), NodeHealth("away", problem="not reached")]))
    assert {metric.name for metric in found} == HELP.keys()
    values = {(one.name, tuple(sorted(one.labels.items()))): one.value for one in found}
    assert len(values) == len(found), "no value is given twice"
    gpu = {"node": "n", "gpu": "1", "uuid": facts["gpu"][1]["uuid"]}
    assert values["bai_gpu_ecc_uncorrected_lifetime", tuple(sorted(gpu.items()))] == 7
    assert values["bai_gpu_xid_events", tuple(sorted({**gpu, "xid": "62"}.items()))] == 1
    assert values["bai_node_health_known", (("node", "away"),)] == 0
