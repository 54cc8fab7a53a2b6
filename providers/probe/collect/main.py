"""`python3 probe.pyz [--root DIR] [--nvml|--no-nvml]`: prints what this machine is as one JSON object.

Exit code 0; 1 with one line on stderr when the tree is not a machine's.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import sys
import threading

from providers.probe.collect.disk import DiskTree
from schemas.hardware.cpulist import parse_cpus
from schemas.hardware.sysfs.machine import Accelerators, NoMachineTree, RunningMachine, describe_machine
from schemas.hardware.sysfs.tree import read_cpus


def collect(root: str = "/", nvml: bool | None = None) -> dict[str, object]:
    """JSON-able data in the shape of `schemas.hardware.model.Hardware`; raises NoMachineTree.

    NVML tells about the running machine only, so it is asked by default when `root` is `/`.
    """
    own = os.path.realpath(root) == "/"
    tree = DiskTree(root)
    return describe_machine(
        tree, _accelerators() if (own if nvml is None else nvml) else None, _own_limits(tree) if own else None
    )


def _accelerators() -> Accelerators:
    if not _has_nvml():
        return Accelerators()
    try:
        from providers.probe.collect.nvml import accelerators
    except ImportError as error:
        return Accelerators(unknown=(f"NVIDIA GPUs: {error}",))
    return accelerators()


def _has_nvml() -> bool:
    # Importing pynvml costs more than all the rest here, and without the library it has nothing to say.
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def _own_limits(tree: DiskTree) -> RunningMachine:
    here = os.uname()
    online = read_cpus(tree, "/sys/devices/system/cpu/online") or tuple(sorted(os.sched_getaffinity(0)))
    return RunningMachine(
        here.machine, here.nodename, here.release, _allowed_cpus(online), _allowed_memory(tree)
    )


def _allowed_cpus(online: tuple[int, ...]) -> tuple[int, ...]:
    """CPUs this process may be moved to.

    A mask set by taskset or `isolcpus` is not a limit, a cpuset is: a thread asks for everything and sees
    what it is given.
    """
    given: list[int] = []

    def ask() -> None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, online)
        given.extend(os.sched_getaffinity(0))

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    return tuple(sorted(given))


def _allowed_memory(tree: DiskTree) -> tuple[int, ...] | None:
    found = re.search(r"^Mems_allowed_list:\s*([\d,-]+)$", tree.read("/proc/self/status") or "", re.MULTILINE)
    return parse_cpus(found.group(1)) if found else None


def main(arguments: list[str] | None = None) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="probe", description="Print what this machine is, as JSON.")
    parser.add_argument("--root", default="/", help="read a copy of /sys and /proc below this folder instead")
    parser.add_argument("--nvml", action="store_true", default=None, help="ask NVML even with --root")
    parser.add_argument("--no-nvml", action="store_false", dest="nvml", help="do not ask NVML")
    given = parser.parse_args(arguments)
    try:
        found = collect(given.root, given.nvml)
    except NoMachineTree as error:
        print(f"probe: {given.root}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(found, sort_keys=True))
    return 0
