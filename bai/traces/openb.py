"""The CSV pair of the openb traces (Alibaba 2023): pods with creation and deletion times, and nodes.

A pod runs for as long as it did: from `scheduled_time` (from `creation_time` where it never was scheduled)
to `deletion_time`. `gpu_milli` below 1000 asks for part of one GPU, else for `num_gpu` whole ones; `gpu_spec`
names the models that will do, separated by `|`; `qos` becomes the project.
"""

from __future__ import annotations

from collections.abc import Sequence

from bai.traces.table import Row
from planner.model.types import KernelRequest, NodeInfo, SessionRequest
from planner.simulation.values import Job
from schemas.hardware.model import Gpu, Hardware, NumaNode

POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time")
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
MOST_CORES, MOST_MEMORY, MOST_GPUS = 65_536, 1 << 30, 1_024
"""Of one node; memory in MiB."""
_MIB = 1 << 20


def is_pod_list(columns: Sequence[str]) -> bool:
    """Whether a CSV file with these columns lists pods, with or without all that is needed of them."""
    return {"num_gpu", "gpu_milli"} <= set(columns)


def parse_pods(rows: Sequence[Row], group: str) -> list[Job]:
    """The pods as sessions of `group`. What is wrong with a row is added to its problems."""
    return [_pod_job(row, group) for row in rows]


def _pod_job(row: Row, group: str) -> Job:
    count, milli = row.integer("num_gpu"), row.integer("gpu_milli")
    slots = {"cpu": row.integer("cpu_milli"), "mem": row.integer("memory_mib") * _MIB}
    if count:
        slots |= {"cuda.device": count} if milli >= 1000 else {"cuda.shares": milli}
    if count > 1 and milli < 1000:
        row.add_problem(
            "gpu_milli", f"{milli} of each of {count} GPUs cannot be asked for", "1000 with several GPUs"
        )
    created, deleted = row.number("creation_time"), row.number("deletion_time")
    begun = row.number("scheduled_time") if row.text("scheduled_time") else created
    if deleted < begun:
        row.add_problem("deletion_time", f"{deleted:g} is before {begun:g}, when it started")
    name = row.text("name")
    if not name:
        row.add_problem("name", "is empty")
    request = SessionRequest(
        id=name,
        group=group,
        kernels=(KernelRequest("main1", "main", 1, slots),),
        type="batch",
        project=row.text("qos"),
        user=row.text("qos"),
        enqueued=created,
        exclusive_cpus=False,
        gpu_models=frozenset(filter(None, row.text("gpu_spec").split("|"))),
    )
    return Job(request, max(0.0, deleted - begun))


def parse_nodes(rows: Sequence[Row], group: str) -> list[NodeInfo]:
    """The nodes, each with all its GPUs on one NUMA node; nodes of one size and model share one hardware."""
    known: dict[tuple[int, int, int, str], Hardware] = {}
    return [_node_info(row, group, known) for row in rows]


def _node_info(row: Row, group: str, known: dict[tuple[int, int, int, str], Hardware]) -> NodeInfo:
    gpus, model = row.integer("gpu", MOST_GPUS), row.text("model")
    cores = row.integer("cpu_milli", MOST_CORES * 1000) // 1000
    size = (cores, row.integer("memory_mib", MOST_MEMORY), gpus, model)
    if size[0] < 1:
        row.add_problem("cpu_milli", "a node has at least one core (1000)")
        size = (1, *size[1:])
    if size not in known:
        numa = NumaNode(id=0, cpus=tuple(range(size[0])), memory=size[1] * _MIB)
        devices = tuple(Gpu(id=f"GPU-{at}", index=at, model=model, numa_node=0) for at in range(gpus))
        known[size] = Hardware(numa_nodes=(numa,), gpus=devices)
    return NodeInfo(row.text("sn"), known[size], group)
