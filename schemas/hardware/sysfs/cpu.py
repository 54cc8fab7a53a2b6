"""Which logical CPUs there are: online, offline, isolated, and which share a physical core."""

from __future__ import annotations

import re
from typing import NamedTuple, Tuple

from schemas.hardware.cpulist import MAX_CPU
from schemas.hardware.sysfs.tree import Tree, numbered_entries, read_cpus, read_text

CPU = "/sys/devices/system/cpu"
Cpus = Tuple[int, ...]


class Processors(NamedTuple):
    online: Cpus
    offline: Cpus
    isolated: Cpus
    siblings: tuple[Cpus, ...]
    """Online threads of each core that has more than one."""


def read_processors(tree: Tree) -> Processors | None:
    """None when the tree says nothing about CPUs."""
    present = read_cpus(tree, CPU + "/present") or tuple(
        cpu for cpu in numbered_entries(tree, CPU, "cpu") if cpu <= MAX_CPU
    )
    if not present:
        present = _read_cpuinfo(tree)
    online = read_cpus(tree, CPU + "/online")
    if online is None:
        online = tuple(cpu for cpu in present if read_text(tree, f"{CPU}/cpu{cpu}/online") != "0")
    if not online:
        return None
    isolated = read_cpus(tree, CPU + "/isolated") or ()
    return Processors(
        online=online,
        offline=tuple(cpu for cpu in present if cpu not in set(online)),
        isolated=tuple(cpu for cpu in isolated if cpu in set(online)),
        siblings=_read_siblings(tree, online),
    )


def _read_cpuinfo(tree: Tree) -> Cpus:
    lines = (tree.read("/proc/cpuinfo") or "").splitlines()
    numbers = (
        line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == "processor"
    )
    return tuple(sorted(int(number) for number in numbers if _is_cpu(number)))


def _is_cpu(number: str) -> bool:
    return bool(re.fullmatch("[0-9]{1,5}", number)) and int(number) <= MAX_CPU


def _read_siblings(tree: Tree, online: Cpus) -> tuple[Cpus, ...]:
    here, cores = set(online), set()
    for cpu in online:
        folder = f"{CPU}/cpu{cpu}/topology/"
        names = ("core_cpus_list", "thread_siblings_list", "core_cpus", "thread_siblings")
        threads = read_cpus(tree, *[folder + name for name in names]) or ()
        core = tuple(thread for thread in threads if thread in here)
        if len(core) > 1:
            cores.add(core)
    return tuple(sorted(cores))


def restrict_processors(found: Processors, allowed: Cpus) -> Processors:
    """The same machine as seen by a process that may only use these CPUs."""
    keep = set(allowed)

    def kept(numbers: Cpus) -> Cpus:
        return tuple(cpu for cpu in numbers if cpu in keep)

    cores: list[Cpus] = [kept(core) for core in found.siblings]
    return Processors(
        kept(found.online),
        found.offline,
        kept(found.isolated),
        tuple(core for core in cores if len(core) > 1),
    )
