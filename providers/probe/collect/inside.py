"""`python3 probe.pyz` in a container: what the machine around it is, and not what the container may use.

A container sees all of /sys: CPUs, NUMA nodes, the PCI tree. It sees neither NVIDIA's library, so that GPUs
are known by where they sit, nor the machine's own files, so that its distribution is not known.
"""

from __future__ import annotations

import json
import os
import sys

from providers.probe.collect.disk import DiskTree
from schemas.hardware.sysfs.cpu import read_processors
from schemas.hardware.sysfs.devices import nvidia_gpus
from schemas.hardware.sysfs.machine import Accelerators, NoMachineTree, RunningMachine, describe_machine
from schemas.hardware.sysfs.pci import pci_functions
from schemas.hardware.sysfs.tree import Tree


def collect_inside(root: str = "/") -> dict[str, object]:
    """JSON-able data in the shape of `schemas.hardware.model.Hardware`; raises NoMachineTree."""
    tree = DiskTree(root)
    found = read_processors(tree)
    here = os.uname()
    own = RunningMachine(here.machine, here.nodename, here.release, found.online if found else ())
    described = describe_machine(tree, _located_gpus(tree), own)
    software = described["software"]
    assert isinstance(software, dict)
    return {**described, "software": {**software, "os": None}}


def _located_gpus(tree: Tree) -> Accelerators:
    functions = nvidia_gpus(pci_functions(tree, []))
    return Accelerators(
        gpus=tuple(
            {"id": each.address, "index": at, "slot": "cuda", "vendor": "nvidia", "pci": each.address}
            for at, each in enumerate(functions)
        ),
        unknown=("direct links between GPUs",) if len(functions) > 1 else (),
    )


def main() -> int:
    try:
        found = collect_inside()
    except NoMachineTree as error:
        print(f"probe: {error}", file=sys.stderr)
        return 1
    print(json.dumps(found, sort_keys=True, separators=(",", ":")))
    return 0
