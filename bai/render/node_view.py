"""Nodes as rows of words: what they have, and what of it is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bai.render.picture import Holding, cores_of
from bai.render.words import clean, listed, size
from planner.types import NodeInfo
from reconciler.actual import Actual
from reconciler.records import HOLDING


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node; -1 where its hardware is not known. Memory in bytes; `used_*` what sessions hold of it."""

    name: str
    group: str
    state: str
    cores: int = -1
    used_cores: int = 0
    memory: int = -1
    used_memory: int = 0
    gpus: int = -1
    used_gpus: int = 0
    gpu_models: tuple[str, ...] = ()
    numa_nodes: int = 0
    address: str = ""


def running(actual: Actual) -> list[Holding]:
    """The placements that hold something now, as pictures want them."""
    return [
        Holding(item.recorded.placement, new=False)
        for item in actual.existing.values()
        if item.recorded.placement and item.phase in HOLDING
    ]


def node_row(node: NodeInfo, holdings: Iterable[Holding], address: str = "") -> NodeRow:
    """A node of known hardware. Cores are physical ones; GPUs held in part count as used."""
    hardware = node.hardware
    cores = [core for numa in hardware.numa_nodes for core in cores_of(numa, hardware)]
    held = [k for holding in holdings for k in holding.placement.kernels if k.node == node.name]
    cpus = {cpu for kernel in held for cpu in kernel.cpus}
    names = {grant.id for kernel in held for grant in kernel.devices}
    return NodeRow(
        name=node.name,
        group=node.group,
        state=node.state,
        cores=len(cores),
        used_cores=sum(any(cpu in cpus for cpu in core) for core in cores),
        memory=sum(numa.memory for numa in hardware.numa_nodes),
        used_memory=sum(kernel.memory for kernel in held),
        gpus=len(hardware.gpus),
        used_gpus=sum(
            gpu.id in names or any(m.id in names for m in gpu.mig_devices) for gpu in hardware.gpus
        ),
        gpu_models=tuple(sorted({gpu.model for gpu in hardware.gpus if gpu.model})),
        numa_nodes=len(hardware.numa_nodes),
        address=address,
    )


def cells(row: NodeRow, *, wide: bool = False) -> list[str]:
    """The row as a line of a table."""
    known = row.cores >= 0
    shown = [
        row.name,
        row.group,
        row.state,
        f"{row.used_cores}/{row.cores}" if known else "unknown",
        f"{size(row.used_memory)}/{size(row.memory)}" if known else "unknown",
        f"{row.used_gpus}/{row.gpus}" if known else "unknown",
    ]
    if wide:
        shown += [str(row.numa_nodes or ""), listed(map(clean, row.gpu_models)), row.address]
    return shown


def columns(*, wide: bool = False) -> list[str]:
    first = ["node", "group", "state", "cores used", "memory used", "gpus used"]
    return first + (["numa", "gpu models", "address"] if wide else [])


def as_json(row: NodeRow) -> Mapping[str, object]:
    """One node of `bai nodes list --format json`."""
    known = row.cores >= 0
    return {
        "name": row.name,
        "group": row.group,
        "state": row.state,
        "address": row.address,
        "hardwareKnown": known,
        "numaNodes": row.numa_nodes,
        "cores": {"total": row.cores, "used": row.used_cores} if known else None,
        "memory": {"total": row.memory, "used": row.used_memory} if known else None,
        "gpus": {"total": row.gpus, "used": row.used_gpus, "models": list(row.gpu_models)} if known else None,
    }
