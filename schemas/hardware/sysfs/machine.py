"""One machine: all that a tree says, put together. What NVML adds about NVIDIA's GPUs is handed in as
`Accelerators`.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Mapping, NamedTuple

from schemas.hardware.cpulist import format_cpus
from schemas.hardware.sysfs import devices
from schemas.hardware.sysfs.cpu import Processors, read_processors, restrict_processors
from schemas.hardware.sysfs.devices import Device, Functions
from schemas.hardware.sysfs.numa import NumaFacts, numa_nodes
from schemas.hardware.sysfs.pci import pci_functions, pci_relation
from schemas.hardware.sysfs.tree import Tree, read_text


class Accelerators(NamedTuple):
    """What a vendor's library knows: GPUs in the model's shape, links by pair of GPU ids, and versions."""

    gpus: tuple[dict[str, object], ...] = ()
    links: tuple[dict[str, object], ...] = ()
    switches: int = 0
    software: Mapping[str, str | None] = MappingProxyType({})
    memory_nodes: tuple[int, ...] = ()
    """NUMA nodes that are GPU memory."""
    unknown: tuple[str, ...] = ()


class RunningMachine(NamedTuple):
    """What only the running machine can tell about itself, when the tree is its own `/`."""

    architecture: str
    hostname: str
    kernel: str
    allowed: tuple[int, ...]
    """CPUs that this process may use."""
    memory_nodes: tuple[int, ...] | None = None
    """NUMA nodes whose memory this process may use; None for all."""


class NoMachineTree(ValueError):
    """The tree has neither CPUs in /sys nor in /proc."""


def describe_machine(
    tree: Tree, accelerators: Accelerators | None = None, own: RunningMachine | None = None
) -> dict[str, object]:
    """The machine as JSON-able data in the shape of `schemas.hardware.model.Hardware`; raises
    NoMachineTree."""
    unknown: list[str] = list(accelerators.unknown) if accelerators else []
    found = read_processors(tree)
    if found is None:
        raise NoMachineTree("no CPU is listed in /sys/devices/system/cpu or /proc/cpuinfo")
    usable = restrict_processors(found, own.allowed) if own else found
    _note_withheld_cpus(found, usable, unknown)
    nodes = numa_nodes(tree, usable.online, unknown)
    nodes = _restrict_memory(nodes, own, unknown)
    of_nodes = {cpu for node in nodes for cpu in node.cpus}
    gpu_memory = accelerators.memory_nodes if accelerators else ()
    nodes = [node._replace(kind="gpu") if node.id in gpu_memory and not node.cpus else node for node in nodes]
    on_pci = pci_functions(tree, [node.id for node in nodes if node.cpus])
    gpus = _gpus(tree, on_pci, accelerators, unknown)
    nics = devices.rdma_nics(tree, on_pci)
    disks = devices.nvme_drives(tree, on_pci, unknown)
    _note_unplaced_devices([*gpus, *nics], unknown)
    known = list(accelerators.links) if accelerators else []
    return {
        "architecture": own.architecture if own else _architecture(tree, unknown),
        "hostname": own.hostname
        if own
        else read_text(tree, "/proc/sys/kernel/hostname") or read_text(tree, "/etc/hostname"),
        "numaNodes": [node.as_dict() for node in nodes],
        "siblings": [format_cpus(core) for core in usable.siblings if of_nodes.issuperset(core)],
        "offlineCpus": format_cpus(usable.offline),
        "isolatedCpus": format_cpus(usable.isolated),
        "gpus": [gpu.fields for gpu in gpus],
        "nics": [nic.fields for nic in nics],
        "disks": [disk.fields for disk in disks],
        "links": _links(tree, gpus, nics, known),
        "nvSwitches": max(devices.nv_switches(on_pci), accelerators.switches if accelerators else 0),
        "software": {**_software(tree, own), **(accelerators.software if accelerators else {})},
        "unknown": unknown,
    }


def _note_withheld_cpus(found: Processors, usable: Processors, unknown: list[str]) -> None:
    withheld = sorted(set(found.online) - set(usable.online))
    if withheld:
        unknown.append(f"CPUs {format_cpus(withheld)}: online, but this process may not use them")


def _restrict_memory(
    nodes: list[NumaFacts], own: RunningMachine | None, unknown: list[str]
) -> list[NumaFacts]:
    if own is None or own.memory_nodes is None:
        return nodes
    withheld = [node.id for node in nodes if node.memory and node.id not in own.memory_nodes]
    if withheld:
        unknown.append(
            f"memory of NUMA nodes {format_cpus(withheld)}: there, but this process may not use it"
        )
    return [node._replace(memory=0) if node.id in withheld else node for node in nodes]


def _note_unplaced_devices(found: list[Device], unknown: list[str]) -> None:
    homeless = [device.id for device in found if device.fields.get("numaNode") is None]
    if homeless:
        unknown.append(f"NUMA node of {', '.join(homeless)}")


def _gpus(
    tree: Tree, on_pci: Functions, accelerators: Accelerators | None, unknown: list[str]
) -> list[Device]:
    found = []
    for fields in accelerators.gpus if accelerators else ():
        function = on_pci.get(str(fields.get("pci")))
        where = {} if function is None else devices.location_fields(function, None)
        found.append(Device(str(fields["id"]), {**fields, **where}, function))
    usable = {device.fields.get("pci") for device in found}
    for function in devices.nvidia_gpus(on_pci):
        if function.address not in usable and None not in usable:
            why = (
                f"the {function.driver} driver does not offer it"
                if function.driver
                else "no driver is loaded for it"
            )
            unknown.append(f"NVIDIA GPU at {function.address}: {why}")
    return found + devices.amd_gpus(tree, on_pci, len(found))


def _links(
    tree: Tree, gpus: list[Device], nics: list[Device], known: list[dict[str, object]]
) -> list[dict[str, object]]:
    """The library's links first, then XGMI, then what the PCI tree says about every remaining pair."""
    links = list(known)
    told = {frozenset((str(link["a"]), str(link["b"]))) for link in links}
    xgmi = {frozenset(pair) for pair in devices.xgmi_pairs(tree)}
    everything = gpus + nics
    for at, a in enumerate(everything):
        for b in everything[at + 1 :]:
            if frozenset((a.id, b.id)) in told or a.function is None or b.function is None:
                continue
            direct = frozenset((a.function.address, b.function.address)) in xgmi
            kind = "XGMI" if direct else pci_relation(a.function, b.function)
            if kind is not None:
                links.append({"a": a.id, "b": b.id, "kind": kind})
    return links


def _architecture(tree: Tree, unknown: list[str]) -> str:
    told = read_text(tree, "/proc/sys/kernel/arch")
    if told:
        return told
    cpuinfo = tree.read("/proc/cpuinfo") or ""
    for pattern, name in (
        ("vendor_id.*(Intel|AMD|Hygon)", "x86_64"),
        ("CPU implementer", "aarch64"),
        ("POWER", "ppc64le"),
        ("arch.*: IA-64", "ia64"),
    ):
        if re.search(pattern, cpuinfo):
            return name
    unknown.append("architecture")
    return "x86_64"


def _software(tree: Tree, own: RunningMachine | None) -> dict[str, str | None]:
    release = re.search(r'^PRETTY_NAME="?([^"\n]+)', tree.read("/etc/os-release") or "", re.MULTILINE)
    ofed = read_text(tree, "/sys/module/mlx5_core/version") or ""
    return {
        "kernel": own.kernel if own else read_text(tree, "/proc/sys/kernel/osrelease"),
        "os": release.group(1) if release else None,
        "nvidiaDriver": read_text(tree, "/sys/module/nvidia/version"),
        "mlnxOfed": ofed if re.match(r"\d+\.\d+-", ofed) else None,
    }
