"""The machine around the GPUs: PCI, disks, mounts, clock, memory, RDMA."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import time
from typing import Any, Iterator

from providers.health.node.files import Tree

_NETWORK = re.compile(r"^(nfs4?|lustre|wekafs|ceph|cifs|smb3|beegfs|gpfs|fuse\.(glusterfs|ceph|sshfs))$")
_LOCAL = re.compile(r"^(ext[234]|xfs|btrfs|zfs|vfat|f2fs)$")
_PATIENCE = 5.0
_UNSYNCHRONISED = 0x0040
_DISPLAY, _SWITCH, _NVIDIA = "0x03", "0x0680", "0x10de"


def pci(tree: Tree) -> list[dict[str, Any]]:
    """NVIDIA's devices on the bus, whether or not a driver knows them."""
    found = []
    for address in tree.names("/sys/bus/pci/devices"):
        folder = f"/sys/bus/pci/devices/{address}"
        if tree.read(f"{folder}/vendor", 16) != _NVIDIA:
            continue
        kind = tree.read(f"{folder}/class", 16)
        what = "gpu" if kind.startswith(_DISPLAY) else "switch" if kind.startswith(_SWITCH) else ""
        if what:
            driver = os.path.basename(os.path.realpath(tree.at(f"{folder}/driver")))
            has = tree.there(f"{folder}/driver")
            # What has fallen off the bus reads as all ones.
            config = _first_byte(tree.at(f"{folder}/config"))
            found.append(
                {"pci": address, "what": what, "driver": driver if has else "", "gone": config == 0xFF}
            )
    return found


def _first_byte(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            return (file.read(1) or b"\0")[0]
    except OSError:
        return None


def disks(tree: Tree) -> list[dict[str, Any]]:
    """Every local file system that is written to, once: bytes and files, free for everybody."""
    found: dict[str, dict[str, Any]] = {}
    for device, path, kind, options in _mounted(tree):
        if not _LOCAL.match(kind) or "ro" in options.split(",") or device in found:
            continue
        try:
            state = os.statvfs(tree.at(path) or "/")
        except OSError:
            continue
        if state.f_blocks:
            found[device] = {
                "path": path,
                "size": state.f_blocks * state.f_frsize, "free": state.f_bavail * state.f_frsize,
                "files": state.f_files, "files_free": state.f_favail,
            }  # fmt: skip
    if not found and tree.own:  # an overlay, in a container
        state = os.statvfs("/")
        size, free = state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize
        return [{"path": "/", "size": size, "free": free, "files": 0, "files_free": 0}]
    return list(found.values())


def _mounted(tree: Tree) -> Iterator[tuple[str, str, str, str]]:
    """(device number, path, type, options) of what is mounted."""
    for line in tree.read("/proc/self/mountinfo" if tree.own else "/proc/mountinfo").splitlines():
        words = line.split(" ")
        if "-" in words[6:]:
            at = words.index("-", 6)
            yield words[2], _unescaped(words[4]), words[at + 1], words[5]


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), path)


def mounts(tree: Tree) -> dict[str, Any]:
    """Mounts of the network: `there`, which of them are `stale` (do not answer in time, or say so), and what
    fstab names and is `missing`."""
    there = {path: kind for _, path, kind, _ in _mounted(tree) if _NETWORK.match(kind)}
    wanted = dict(_fstab(tree))
    return {
        "there": sorted(there),
        "stale": _stale_mounts(sorted(there)) if tree.own else {},
        "missing": sorted(path for path in wanted if path not in there),
    }


def _fstab(tree: Tree) -> Iterator[tuple[str, str]]:
    for line in tree.read("/etc/fstab").splitlines():
        words = line.split("#", 1)[0].split()
        if len(words) < 4 or not _NETWORK.match(words[2]):
            continue
        options = words[3].split(",")
        if "noauto" not in options and "x-systemd.automount" not in options:
            yield _unescaped(words[1]), words[2]


def _stale_mounts(paths: list[str]) -> dict[str, str]:
    """Path → why; all are asked at the same time, each by a process that nobody waits for longer."""
    asked = {}
    for path in paths:
        asked[path] = subprocess.Popen(
            ["stat", "-f", "--", path],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    deadline, found = time.monotonic() + _PATIENCE, {}
    for path, process in asked.items():
        try:
            if process.wait(max(0.01, deadline - time.monotonic())):
                found[path] = "cannot be read"
        except subprocess.TimeoutExpired:
            process.kill()
            found[path] = f"does not answer within {_PATIENCE:g} s"
    return found


class _Timex(ctypes.Structure):
    """The head of the kernel's struct timex, and room for the rest of it."""

    _fields_ = (
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("frequency", ctypes.c_long),
        ("most", ctypes.c_long), ("estimated", ctypes.c_long), ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )  # fmt: skip


def synchronised(tree: Tree) -> bool | None:
    """Whether somebody keeps the kernel's clock, chrony, ntpd or timesyncd alike; None is not known."""
    if not tree.own:
        text = tree.read("/synchronised", 8)
        return text == "yes" if text else None
    try:
        now = _Timex()
        if ctypes.CDLL(None).adjtimex(ctypes.byref(now)) < 0:
            return None
        return not now.status & _UNSYNCHRONISED
    except (OSError, AttributeError):
        return None


def memory(tree: Tree) -> list[dict[str, Any]]:
    """Errors of the machine's memory that its controllers counted since boot."""
    base = "/sys/devices/system/edac/mc"
    return [
        {
            "controller": name,
            "corrected": tree.number(f"{base}/{name}/ce_count") or 0,
            "uncorrected": tree.number(f"{base}/{name}/ue_count") or 0,
        }
        for name in tree.names(base)
        if re.match(r"mc\d+$", name)
    ]


def rdma(tree: Tree) -> list[dict[str, Any]]:
    """Ports of RDMA devices: state, and rate in Mbit/s."""
    found = []
    for device in tree.names("/sys/class/infiniband"):
        for port in tree.names(f"/sys/class/infiniband/{device}/ports"):
            folder = f"/sys/class/infiniband/{device}/ports/{port}"
            rate = re.match(r"([\d.]+) Gb", tree.read(f"{folder}/rate", 64))
            found.append(
                {
                    "device": device, "port": port,
                    "state": _state_word(tree.read(f"{folder}/state", 64)),
                    "physical": _state_word(tree.read(f"{folder}/phys_state", 64)),
                    "layer": tree.read(f"{folder}/link_layer", 32).lower(),
                    "rate": int(float(rate.group(1)) * 1000) if rate else None,
                    "downs": tree.number(f"{folder}/counters/link_downed"),
                }
            )  # fmt: skip
    return found


def _state_word(text: str) -> str:
    """`4: ACTIVE` without its number."""
    return text.rpartition(":")[2].strip()
