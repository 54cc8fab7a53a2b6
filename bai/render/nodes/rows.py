"""Nodes as rows of words: what they have, and what of it is taken."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bai.render.humanize import clean, format_milli, iso_time, join_limited, size
from bai.render.nodes.picture import HeldPlacement, cores_of
from planner.model.huge_pages import bytes_by_slot, pages_of
from reconciler.values.records import HOLDING

if TYPE_CHECKING:
    from planner.model.types import KernelPlacement, NodeInfo
    from reconciler.plan.nodes.profile_status import ProfileStatus
    from reconciler.provisioning.reasons import ReasonKind
    from reconciler.values.state import Actual
    from schemas.hardware.model import Gpu

WORDS: Mapping[ReasonKind, str] = {
    "never": "never",
    "failed": "failed",
    "unfinished": "not finished",
    "changed": "profile changed",
    "drift": "drifted",
}


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node; -1 where its hardware is not known. Memory in bytes; `used_*` what sessions hold of it: cores
    for themselves, and `shared_milli` thousandths of cores that they share."""

    name: str
    group: str
    state: str
    cores: int = -1
    used_cores: int = 0
    shared_milli: int = 0
    memory: int = -1
    used_memory: int = 0
    hugepages: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Slot → bytes that are held, and all; none of the memory."""
    gpus: int = -1
    used_gpus: int = 0
    gpu_models: tuple[str, ...] = ()
    numa_nodes: int = 0
    address: str = ""
    profile_status: ProfileStatus | None = None
    """Against its profile; None for a node without one."""


def running_placements(actual: Actual) -> list[HeldPlacement]:
    """The placements that hold something now, as pictures want them."""
    return [
        HeldPlacement(item.recorded.placement, new=False)
        for item in actual.existing.values()
        if item.recorded.placement and item.phase in HOLDING
    ]


def held_kernels(holdings: Iterable[HeldPlacement]) -> Mapping[str, Sequence[KernelPlacement]]:
    """Node → what is held there, of the nodes where something is."""
    found: dict[str, list[KernelPlacement]] = {}
    for holding in holdings:
        for kernel in holding.placement.kernels:
            found.setdefault(kernel.node, []).append(kernel)
    return found


def node_row(
    node: NodeInfo,
    held: Sequence[KernelPlacement],
    address: str = "",
    profile_status: ProfileStatus | None = None,
) -> NodeRow:
    """A node of known hardware, and what is held on it. Cores are physical ones; GPUs held in part count as
    used."""
    hardware = node.hardware
    cores = [core for numa in hardware.numa_nodes for core in cores_of(numa, hardware)]
    cpus = {cpu for kernel in held for cpu in kernel.cpus}
    names = {grant.id for kernel in held for grant in kernel.devices}
    return NodeRow(
        name=node.name,
        group=node.group,
        state=node.state,
        cores=len(cores),
        used_cores=sum(any(cpu in cpus for cpu in core) for core in cores),
        shared_milli=sum(kernel.cpu_milli for kernel in held if not kernel.cpus),
        memory=sum(numa.memory - sum(numa.hugepages.values()) for numa in hardware.numa_nodes),
        used_memory=sum(kernel.memory for kernel in held),
        hugepages=_hugepages(node, held),
        gpus=len(hardware.gpus),
        used_gpus=sum(is_gpu_held(gpu, names) for gpu in hardware.gpus),
        gpu_models=tuple(sorted({gpu.model for gpu in hardware.gpus if gpu.model})),
        numa_nodes=len(hardware.numa_nodes),
        address=address,
        profile_status=profile_status,
    )


def _hugepages(node: NodeInfo, held: Sequence[KernelPlacement]) -> dict[str, tuple[int, int]]:
    used = bytes_by_slot(grant for kernel in held for grant in kernel.hugepages)
    there = pages_of(node.hardware.numa_nodes)
    return {slot: (used.get(slot, 0), sum(amounts)) for slot, amounts in there.items()}


def is_gpu_held(gpu: Gpu, names: Collection[str]) -> bool:
    """Whether any of the devices named so is the GPU, or a part of it."""
    return gpu.id in names or any(part.id in names for part in gpu.mig_devices)


def node_cells(row: NodeRow, *, wide: bool = False, profiles: bool = False) -> list[str]:
    """The row as a line of a table; `profiles`: with how it stands against its profile."""
    known = row.cores >= 0
    shown = [
        row.name,
        row.group,
        row.state,
        f"{format_milli(1000 * row.used_cores + row.shared_milli)}/{row.cores}" if known else "unknown",
        ", ".join(_memory_text(row)) if known else "unknown",
        f"{row.used_gpus}/{row.gpus}" if known else "unknown",
    ]
    if profiles:
        shown[3:3] = (
            [row.profile_status.profile, provision_word(row.profile_status)]
            if row.profile_status
            else ["", ""]
        )
    if wide:
        shown += [str(row.numa_nodes or ""), join_limited(map(clean, row.gpu_models)), row.address]
    return shown


def _memory_text(row: NodeRow) -> Iterator[str]:
    """`64GiB/512GiB, 2GiB/8GiB hugepages-2Mi`."""
    yield f"{size(row.used_memory)}/{size(row.memory)}"
    for slot, (used, total) in row.hugepages.items():
        yield f"{size(used)}/{size(total)} {slot}"


def provision_word(profile_status: ProfileStatus) -> str:
    """In a word or two; what is not of now is said so."""
    word = WORDS[profile_status.kind] if profile_status.kind else "yes"
    if profile_status.reboot and not profile_status.kind:
        word = "reboot pending"
    aside = (
        "not reached"
        if profile_status.unreached
        else "as last seen"
        if profile_status.seen is not None
        else ""
    )
    return f"{word} ({aside})" if aside else word


def node_columns(*, wide: bool = False, profiles: bool = False) -> list[str]:
    first = ["node", "group", "state", "cores used", "memory used", "gpus used"]
    if profiles:
        first[3:3] = ["profile", "provisioned"]
    return first + (["numa", "gpu models", "address"] if wide else [])


def node_json(row: NodeRow) -> Mapping[str, object]:
    """One node of `bai nodes list --format json`."""
    known = row.cores >= 0
    return {
        "name": row.name,
        "group": row.group,
        "state": row.state,
        "address": row.address,
        "profile": row.profile_status.profile if row.profile_status else None,
        "provisioning": provision_json(row.profile_status) if row.profile_status else None,
        "hardwareKnown": known,
        "numaNodes": row.numa_nodes,
        "cores": _cores_json(row) if known else None,
        "memory": {"total": row.memory, "used": row.used_memory} if known else None,
        **({"hugepages": _hugepages_json(row)} if row.hugepages else {}),
        "gpus": {"total": row.gpus, "used": row.used_gpus, "models": list(row.gpu_models)} if known else None,
    }


def _cores_json(row: NodeRow) -> Mapping[str, int]:
    """`used`: whole cores that one session has alone; `sharedMilli`: thousandths of cores besides."""
    return {"total": row.cores, "used": row.used_cores, "sharedMilli": row.shared_milli}


def provision_json(profile_status: ProfileStatus) -> Mapping[str, object]:
    """How a node stands against its profile; `converged`: nothing is to be done."""
    return {
        "converged": profile_status.kind is None,
        "state": profile_status.kind or "converged",
        "why": profile_status.why,
        "takesSessions": not profile_status.unready,
        "sealedAt": iso_time(profile_status.sealed) if profile_status.sealed is not None else None,
        "seenAt": iso_time(profile_status.seen) if profile_status.seen is not None else None,
        "unreached": profile_status.unreached,
        "rebootPending": profile_status.reboot,
        "deviations": list(profile_status.deviations),
    }


def provision_lines(profile_status: ProfileStatus) -> list[str]:
    """The same in lines."""
    sealed = (
        f"provisioned at {iso_time(profile_status.sealed)}"
        if profile_status.sealed is not None
        else "never provisioned"
    )
    seen = f", as seen at {iso_time(profile_status.seen)}" if profile_status.seen is not None else ""
    lines = [f"profile {clean(profile_status.profile)}: {sealed}{seen}"]
    if profile_status.unreached:
        lines.append(f"not reached: {clean(profile_status.unreached)}")
    if profile_status.kind is not None:
        lines.append(f"to be provisioned: {clean(profile_status.why)}")
    lines += [f"drift: {clean(each)}" for each in profile_status.deviations[2:]]
    if profile_status.reboot:
        lines.append(f"waits for a reboot: {clean(profile_status.reboot)}")
    if profile_status.unready:
        lines.append("takes no sessions before it is provisioned")
    return lines


def _hugepages_json(row: NodeRow) -> dict[str, dict[str, int]]:
    return {slot: {"total": total, "used": used} for slot, (used, total) in row.hugepages.items()}
