"""What an engine can do, from its `GET /info`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from providers.base import Limit

_NEEDS: Mapping[Limit, tuple[str, str]] = {
    Limit.CPUSET: ("CPUSet", "its kernel has no cpuset control groups"),
    Limit.MEMSET: ("CPUSet", "its kernel has no cpuset control groups"),
    Limit.CPU_SHARE: ("CPUShares", "its kernel has no control groups for CPU"),
    Limit.MEMORY: ("MemoryLimit", "its kernel has no control groups for memory"),
    Limit.PIDS: ("PidsLimit", "its kernel has no control groups for processes"),
}
"""Limit → the fact of the engine that it needs, and what it means when that is missing."""


_LIMITING = frozenset({"btrfs", "zfs"})
"""Storage drivers that take `size` (moby, daemon/graphdriver); overlay2 takes it on XFS."""


MOST_CPUS = 8192
"""Linux' own NR_CPUS_RANGE_END on x86."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One engine. `missing`: limits that it cannot hold containers to, and why."""

    identity: str
    """The engine's own id: two nodes with one id are one engine."""
    version: str
    cpus: int
    memory: int
    cgroup: str
    """`1` or `2`."""
    rootless: bool
    remapped: bool
    """Whether containers are in a user namespace: their root is not the node's."""
    missing: Mapping[Limit, str]
    cautions: tuple[str, ...] = ()
    """What is weaker than it looks, in words."""
    runtimes: frozenset[str] = frozenset()
    cdi_folders: tuple[str, ...] = ()
    cdi_devices: frozenset[str] | None = None
    """Names of devices (`nvidia.com/gpu=GPU-...`) where the engine tells them."""


def parse_engine_info(info: Mapping[str, Any]) -> EngineFacts:
    """Of an engine's answer."""
    rootless = any("name=rootless" in option for option in info.get("SecurityOptions") or ())
    told = info.get("DiscoveredDevices")
    return EngineFacts(
        identity=str(info.get("ID", "")),
        version=str(info.get("ServerVersion", "")),
        cpus=min(int(info.get("NCPU") or 0), MOST_CPUS),
        memory=int(info.get("MemTotal") or 0),
        cgroup=str(info.get("CgroupVersion") or "1"),
        rootless=rootless,
        remapped=rootless or any("name=userns" in option for option in info.get("SecurityOptions") or ()),
        missing=_missing_limits(info, rootless),
        cautions=_cautions(info),
        runtimes=frozenset(info.get("Runtimes") or ()),
        cdi_folders=tuple(info.get("CDISpecDirs") or ()),
        cdi_devices=None
        if told is None
        else frozenset(str(each.get("ID", "")) for each in told if each.get("Source") == "cdi"),
    )


def _missing_limits(info: Mapping[str, Any], rootless: bool) -> dict[Limit, str]:
    if rootless and info.get("CgroupDriver") == "none":
        missing = dict.fromkeys(_NEEDS, "the engine is rootless without control groups delegated to it")
    else:
        missing = {limit: why for limit, (fact, why) in _NEEDS.items() if not info.get(fact)}
    if loose := _no_scratch_limit(info, rootless):
        missing[Limit.SCRATCH] = loose
    return missing


def _no_scratch_limit(info: Mapping[str, Any], rootless: bool) -> str:
    """Why the engine cannot limit what a container writes; empty when it can, or will say itself that its
    XFS is mounted without pquota."""
    if rootless:
        return "the engine is rootless, and quotas are root's to set"
    driver = str(info.get("Driver") or "")
    told = dict(pair for pair in info.get("DriverStatus") or () if len(pair) == 2)
    below = str(told.get("Backing Filesystem") or "")
    if driver in _LIMITING or (driver == "overlay2" and below == "xfs"):
        return ""
    return f"the engine keeps containers with {driver}{f' on {below}' if below else ''}, without a limit"


def _cautions(info: Mapping[str, Any]) -> tuple[str, ...]:
    found = []
    if info.get("MemoryLimit") and not info.get("SwapLimit"):
        found.append("swap is not counted: memory limits do not include it")
    if info.get("CPUShares") and not info.get("CpuCfsQuota"):
        found.append("no CPU quota: shared CPU is a weight, not a ceiling")
    if not any("seccomp" in option for option in info.get("SecurityOptions") or ()):
        found.append("no seccomp: system calls are not filtered")
    return tuple(found)
