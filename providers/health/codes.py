"""Every finding there is: its code, how bad it is, what it takes out of placement, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "warning", "critical"]
Takes = Literal["", "device", "gpus"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. `device`: the GPU's recorded id, a port, a mount, a disk; empty for the
    machine itself."""

    code: str
    severity: Severity
    what: str
    device: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of finding. `what` is a format string; `takes`: what gets no new sessions while it lasts, the
    GPU named or all GPUs of the node."""

    name: str
    severity: Severity
    takes: Takes
    what: str
    hint: str
    """What to do; also a format string."""

    def found(self, device: str = "", **fields: object) -> Finding:
        """A finding of this kind. Raises KeyError for a field that the texts name and nobody gave."""
        what, hint = self.what.format(**fields), self.hint.format(**fields)
        return Finding(self.name, self.severity, what, device, hint)


_RESET = "stop what runs on it and reset it: nvidia-smi --gpu-reset -i {index}, or reboot"
_REPLACE = "have the GPU replaced"
_REPROBE = "when it was taken out on purpose, bai nodes probe"
_CDI = "write it anew: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"

_ALL = (
    # GPUs
    Code("gpu-lost", "critical", "device", "the driver cannot reach it: {why}",
         "reboot the node; when it happens again, check its seat, riser and power, then replace it"),
    Code("gpu-missing", "critical", "device", "it is recorded and not found",
         f"compare nvidia-smi -L and lspci; {_REPROBE}"),
    Code("gpu-unrecorded", "warning", "", "GPU {pci} is there and not recorded", "bai nodes probe"),
    Code("gpu-unbound", "critical", "device", "no NVIDIA driver has it: {driver}",
         "nouveau and vfio-pci must leave it alone; see dmesg for why the driver refused it"),
    Code("gpu-ecc-uncorrected", "critical", "device",
         "{count} uncorrected ECC errors since the driver was loaded", _RESET),
    Code("gpu-ecc-ever", "warning", "", "{count} uncorrected ECC errors in its life",
         "watch it; ask for a field diagnosis when the number grows"),
    Code("gpu-sram-threshold", "critical", "device", "more uncorrectable SRAM errors than NVIDIA allows",
         _REPLACE),
    Code("gpu-ecc-pending", "warning", "", "ECC will be {become} after the next reset", _RESET),
    Code("gpu-rows-pending", "critical", "device", "row remapping is pending", _RESET),
    Code("gpu-rows-failed", "critical", "device", "row remapping failed", _REPLACE),
    Code("gpu-pages-pending", "critical", "device", "page retirement is pending", _RESET),
    Code("gpu-pages-retired", "critical", "device", "{count} pages retired for double-bit errors", _REPLACE),
    Code("gpu-recovery", "critical", "device", "the driver asks for recovery: {action}", _RESET),
    Code("gpu-xid-fatal", "critical", "device", "Xid {xid} ({words}), {times}, last {ago} ago", "{advice}"),
    Code("gpu-xid-recovered", "warning", "",
         "Xid {xid} ({words}), {times}, last {ago} ago; the driver says that it has recovered", "{advice}"),
    Code("gpu-xid-application", "ok", "", "Xid {xid} ({words}), {times}, last {ago} ago",
         "usually an error of the program that ran"),
    Code("gpu-xid-unknown", "warning", "", "Xid {xid}, {times}, last {ago} ago: {said}",
         "look it up in NVIDIA's Xid catalog"),
    Code("gpu-nvlink-down", "critical", "device", "{up} of {recorded} NVLinks are up",
         "nvidia-smi nvlink -s; reset the GPUs or reboot; then check bridges and the fabric manager"),
    Code("gpu-fabric", "critical", "device", "it is not in the NVLink fabric: {state}",
         "check the fabric manager, then reset the GPU"),
    Code("gpu-pcie-width", "warning", "", "PCIe x{width} instead of x{most}",
         "check its seat and riser; reboot to train the link anew"),
    Code("gpu-pcie-speed", "warning", "", "PCIe generation {speed} instead of {most} under load",
         "check its seat and riser; reboot to train the link anew"),
    Code("gpu-hot", "warning", "", "{temperature} °C, it slows down from {slows} °C",
         "check fans and air flow"),
    Code("gpu-slowed", "warning", "", "its clocks are held down: {why}", "check power and cooling"),
    Code("gpu-persistence-off", "warning", "", "persistence mode is off: every start waits for the driver",
         "systemctl enable --now nvidia-persistenced"),
    Code("gpu-mig-pending", "warning", "", "MIG will be {become} after the next reset", _RESET),
    # Driver and what belongs to it
    Code("driver-not-loaded", "critical", "gpus", "NVIDIA's driver is not loaded",
         "modprobe nvidia; dkms status; dmesg | grep NVRM"),
    Code("driver-mismatch", "critical", "gpus",
         "the kernel has driver {loaded} loaded, its libraries are of {library}", "reboot the node"),
    Code("driver-hangs", "critical", "gpus", "the driver hangs: {why}", "reboot the node"),
    Code("driver-problem", "critical", "gpus", "the driver does not answer: {why}",
         "nvidia-smi; dmesg | grep NVRM"),
    Code("driver-newer-on-disk", "warning", "", "driver {loaded} is loaded, {on_disk} is installed",
         "reboot the node"),
    Code("driver-missing-for-kernel", "warning", "",
         "kernel {release} is installed and has no NVIDIA module: without one, GPUs are gone after a reboot",
         "dkms autoinstall -k {release}"),
    Code("fabricmanager-missing", "critical", "gpus", "there are NVSwitches and no fabric manager",
         "install nvidia-fabricmanager of the driver's version"),
    Code("fabricmanager-version", "critical", "gpus", "fabric manager {version}, driver {driver}",
         "install the fabric manager of the driver's exact version"),
    Code("fabricmanager-down", "critical", "gpus", "the fabric manager is {state}",
         "systemctl restart nvidia-fabricmanager; journalctl -u nvidia-fabricmanager"),
    Code("cdi-missing", "warning", "", "no CDI specification of the GPUs", _CDI),
    Code("cdi-stale", "warning", "", "the CDI specification is not of what is there: {why}", _CDI),
    Code("device-links-missing", "warning", "",
         "a daemon-reload of systemd takes the GPUs from running containers: {path} is missing",
         "nvidia-ctk system create-dev-char-symlinks --create-all"),
    # The machine
    Code("kernel-newer-installed", "warning", "", "kernel {running} runs, {newest} is installed",
         "reboot the node when it suits"),
    Code("reboot-required", "warning", "", "installed packages ask for a reboot",
         "reboot the node when it suits"),
    Code("memory-uncorrected", "critical", "", "{count} uncorrected memory errors since boot",
         "drain the node and have the module replaced"),
    Code("memory-corrected", "warning", "", "{count} corrected memory errors since boot",
         "watch it; have the module replaced when the number grows"),
    Code("machine-check", "warning", "", "{count} machine checks in the kernel's log",
         "dmesg | grep -i 'hardware error'"),
    Code("disk-full", "critical", "", "{percent} % of its {of} are used", "make room"),
    Code("disk-filling", "warning", "", "{percent} % of its {of} are used", "make room"),
    Code("file-system-read-only", "critical", "", "a file system failed: {said}",
         "drain the node; check the disk"),
    Code("mount-stale", "critical", "", "the mount {why}",
         "check the server and the network, then mount it again"),
    Code("mount-missing", "critical", "", "it is to be mounted and is not", "mount {path}; journalctl -b"),
    Code("clock-unsynchronised", "warning", "", "nobody keeps the clock", "systemctl enable --now chrony"),
    Code("rdma-down", "warning", "", "the port is {state} ({physical})",
         "check cable, transceiver and switch port"),
    Code("rdma-slow", "warning", "", "the port runs at {rate} Gbit/s instead of {recorded}",
         "check cable and switch port"),
    Code("engine-down", "critical", "", "{unit} is {state}",
         "systemctl restart {unit}; journalctl -u {unit}"),
    Code("log-unreadable", "warning", "",
         "the kernel's log cannot be read, so Xid errors are not seen: {why}",
         "log in as root, or with CAP_SYSLOG"),
)  # fmt: skip

CODES = {code.name: code for code in _ALL}
RANK: dict[Severity, int] = {"critical": 0, "warning": 1, "ok": 2}
