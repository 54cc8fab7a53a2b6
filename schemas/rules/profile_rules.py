"""A profile against the machines that are to be brought to it, as far as documents say what they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from schemas.hardware.generations import AMPERE, gpu_generation, has_switches, is_grace, needs_subnet_manager
from schemas.hardware.mig import products_of
from schemas.hardware.model import Gpu, Hardware
from schemas.kinds.node import Node, NodePool
from schemas.problems.issues import Issue, Loc
from schemas.profile import NodeProfile, NodeProfileSpec
from schemas.profile.roles.mig import MigLayout
from schemas.profile.versions.driver import gpu_issues
from schemas.profile.versions.gpus import (
    has_unknown_mig_profiles,
    lacks_mig,
    layout_issues,
    mig_driver_issues,
    mps_issues,
)
from schemas.repository.node_ranges import expand_ranges
from schemas.repository.repository import Repository
from schemas.values.resource_ref import identity_of

_DISTRIBUTION = re.compile(r"Ubuntu|Debian|Red Hat|Rocky|Alma|CentOS|Oracle|Fedora|Amazon|SUSE|openSUSE")


def machine_issues(repository: Repository, machine: Node | NodePool) -> Iterator[Issue]:
    """Everything that the profile of a node, or of a pool's nodes, cannot do on its hardware."""
    node = _first_node(repository, machine)
    profile = repository.profile_of(node) if node is not None else None
    if node is None or profile is None or node.spec.hardware is None:
        return
    at: Loc = ("spec", "profile") if machine.spec.profile else ("metadata", "name")
    told: set[str] = set()
    for issue in _hardware_rules(profile.spec, node.spec.hardware, at):
        if issue.message not in told:
            told.add(issue.message)
            yield _name_profile(issue, profile)


def _name_profile(issue: Issue, profile: NodeProfile) -> Issue:
    hint = f"in NodeProfile/{profile.name}: {issue.hint}" if issue.hint else ""
    message = f"profile '{profile.name}' does not suit this machine: {issue.message}"
    return Issue(issue.at, message, hint, "BAI-V074")


def _first_node(repository: Repository, machine: Node | NodePool) -> Node | None:
    if isinstance(machine, Node):
        return repository.machines.get(machine.identity)
    try:
        names = expand_ranges(machine.spec.name_pattern)
    except ValueError:
        return None
    first = next((name for name in names if name not in machine.spec.exclude), "")
    return repository.machines.get(identity_of("Node", first))


def _hardware_rules(spec: NodeProfileSpec, hardware: Hardware, at: Loc) -> Iterator[Issue]:
    yield from _system_rules(spec, hardware, at)
    gpus = [gpu for gpu in hardware.gpus if gpu.slot == "cuda" and gpu.model]
    models = tuple(dict.fromkeys(gpu.model for gpu in gpus))
    if spec.nvidia_driver is not None:
        for model in models:
            yield from gpu_issues(spec.nvidia_driver, model, at)
    yield from _switch_rules(spec, hardware, gpus, at)
    yield from _mig_rules(spec, gpus, at)
    if spec.mps is not None:
        for gpu in gpus:
            if not spec.mps.gpus or gpu.index in spec.mps.gpus:
                yield from mps_issues(gpu.model, at)
        yield from _index_rules("mps", spec.mps.gpus, hardware, at)
    yield from _gds_rules(spec, hardware, models, at)
    yield from _huge_page_rules(spec, hardware, at)


def _system_rules(spec: NodeProfileSpec, hardware: Hardware, at: Loc) -> Iterator[Issue]:
    pretty = hardware.software.os or ""
    if _DISTRIBUTION.match(pretty) and profile_os(pretty) != spec.os:
        yield Issue(at, f"it is for {spec.os}, and the machine runs {pretty}", "correct os")


def profile_os(pretty: str) -> str:
    """The system as profiles name it, of the pretty name in os-release; empty where no profile is for it."""
    rhel = r"(Red Hat Enterprise|Rocky|AlmaLinux|Alma|CentOS Stream|Oracle)\D*9\b"
    for pattern, name in (
        (r"Ubuntu (22\.04|24\.04)", "ubuntu-{}"),
        (r"Debian GNU/Linux (12)\b", "debian-{}"),
        (rf"{rhel}", "rhel-9"),
    ):
        match = re.match(pattern, pretty)
        if match:
            return name.format(match[1])
    return ""


def _switch_rules(spec: NodeProfileSpec, hardware: Hardware, gpus: Sequence[Gpu], at: Loc) -> Iterator[Issue]:
    joined = any(has_switches(model, count) for model, count in Counter(gpu.model for gpu in gpus).items())
    manager = spec.nvidia_fabricmanager
    if spec.nvidia_driver is None or not (hardware.nv_switches or joined):
        return
    if manager is None:
        message = "its GPUs are joined by NVSwitches, which need a fabric manager, and the profile has none"
        yield Issue(at, message, "add nvidiaFabricmanager: {}")
    elif manager.nvswitch == "absent":
        message = "it has NVSwitches, and the profile says that there are none"
        yield Issue(at, message, "write nvidiaFabricmanager.nvswitch: auto")
    elif not manager.subnet_manager and any(needs_subnet_manager(gpu.model) for gpu in gpus):
        message = "its NVSwitches are of the generation that needs NVLink's subnet manager, too"
        yield Issue(at, message, "write nvidiaFabricmanager.subnetManager: true")


def _mig_rules(spec: NodeProfileSpec, gpus: Sequence[Gpu], at: Loc) -> Iterator[Issue]:
    if spec.mig is None:
        return
    named = {number for layout in spec.mig.layouts for number in layout.gpus}
    for layout in spec.mig.layouts:
        if layout.gpus:
            missing = sorted(set(layout.gpus) - {gpu.index for gpu in gpus})
            if missing and gpus:
                yield Issue(
                    at, f"a MIG layout is for GPU {missing[0]}, which it does not have", "correct mig"
                )
        for gpu in gpus:
            if layout.enabled and (gpu.index in layout.gpus or (not layout.gpus and gpu.index not in named)):
                yield from _layout_rules(spec, layout, gpu, at)


def _layout_rules(spec: NodeProfileSpec, layout: MigLayout, gpu: Gpu, at: Loc) -> Iterator[Issue]:
    if lacks_mig(gpu.model):
        yield Issue(at, f"{gpu.model} cannot be divided: it has no MIG", "correct mig")
        return
    if spec.nvidia_driver is not None:
        yield from mig_driver_issues(spec.nvidia_driver.version, gpu.model, at)
    if has_unknown_mig_profiles(gpu.model):
        return
    products = products_of(gpu.model, gpu.memory) or products_of(gpu.model)
    for issue in layout_issues(layout.instances, products, at):
        yield Issue(at, issue.message.replace("one of these GPUs", gpu.model), issue.hint or "correct mig")


def _index_rules(section: str, indexes: Sequence[int], hardware: Hardware, at: Loc) -> Iterator[Issue]:
    missing = sorted(set(indexes) - {gpu.index for gpu in hardware.gpus})
    if missing and hardware.gpus:
        yield Issue(at, f"{section} is for GPU {missing[0]}, which it does not have", f"correct {section}")


def _gds_rules(spec: NodeProfileSpec, hardware: Hardware, models: Sequence[str], at: Loc) -> Iterator[Issue]:
    """Peer-to-peer without nvidia-fs is of Ampere and newer; the IOMMU is on for Grace and not on x86."""
    if spec.gds is None:
        return
    for model in models:
        generation = gpu_generation(model)
        if spec.gds.nvidia_fs is None and generation is not None and generation.order < AMPERE.order:
            message = f"GDS without nvidia-fs needs Ampere or newer, and {model} is {generation.name}"
            yield Issue(at, message, "give gds.nvidiaFs")
    if any(is_grace(model) for model in models) and spec.gds.iommu != "on":
        message = f"GDS on Grace needs the IOMMU on, and the profile says {spec.gds.iommu}"
        yield Issue(at, message, "write gds.iommu: on")
    if hardware.architecture == "x86_64" and spec.gds.iommu == "on":
        message = "GDS with the IOMMU on is not known to work on x86"
        yield Issue(at, message, "write gds.iommu: off, or pt")


def _huge_page_rules(spec: NodeProfileSpec, hardware: Hardware, at: Loc) -> Iterator[Issue]:
    if spec.base is None:
        return
    nodes = {node.id: node.memory for node in hardware.numa_nodes}
    memory = sum(nodes.values())
    wanted = sum(pages.size * pages.count for pages in spec.base.huge_pages)
    if memory and wanted >= memory:
        yield Issue(at, "its huge pages are more than its memory", "lower base.hugePages")
    for pages in spec.base.huge_pages:
        if pages.numa_node is not None and pages.numa_node not in nodes:
            message = f"huge pages are for NUMA node {pages.numa_node}, which it does not have"
            yield Issue(at, message, "correct base.hugePages")
