"""The openb trace as the planner's values: nodes, pods, and the loads that are reported."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from planner.model.types import KernelRequest, NodeInfo, SessionRequest
from schemas.hardware.model import Gpu, Hardware, NumaNode

LOADS = (95, 100, 110, 120, 130)
MIB = 1 << 20


@dataclass(frozen=True)
class Pod:
    """One row of the pod list. `gpu_milli` below 1000 asks for part of one GPU, else for `gpus` whole
    ones."""

    name: str
    cpu: int
    memory: int
    gpus: int
    gpu_milli: int
    models: frozenset[str]

    @property
    def demand(self) -> int:
        return self.gpus * self.gpu_milli


def read_nodes(path: Path) -> tuple[NodeInfo, ...]:
    """Nodes of one size and model share one hardware."""
    kinds: dict[tuple[str, ...], Hardware] = {}
    nodes = []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            key = (row["cpu_milli"], row["memory_mib"], row["gpu"], row["model"])
            if key not in kinds:
                kinds[key] = _hardware(int(key[0]) // 1000, int(key[1]) * MIB, int(key[2]), key[3])
            nodes.append(NodeInfo(row["sn"], kinds[key], "openb"))
    return tuple(nodes)


def _hardware(cores: int, memory: int, gpus: int, model: str) -> Hardware:
    numa = (NumaNode(id=0, cpus=tuple(range(cores)), memory=memory),)
    devices = tuple(Gpu(id=f"GPU-{at}", index=at, model=model, numa_node=0) for at in range(gpus))
    return Hardware(numa_nodes=numa, gpus=devices)


def read_pods(path: Path) -> tuple[Pod, ...]:
    """Pods in the order of their names."""
    with path.open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["name"])
    return tuple(
        Pod(
            row["name"],
            int(row["cpu_milli"]),
            int(row["memory_mib"]) * MIB,
            int(row["num_gpu"]),
            int(row["gpu_milli"]),
            frozenset(filter(None, (row.get("gpu_spec") or "").split("|"))),
        )
        for row in rows
    )


def request(pod: Pod, number: int) -> SessionRequest:
    slots = {"cpu": pod.cpu, "mem": pod.memory}
    if pod.gpus:
        slots |= {"cuda.device": pod.gpus} if pod.gpu_milli >= 1000 else {"cuda.shares": pod.gpu_milli}
    return SessionRequest(
        id=f"{pod.name}/{number}",
        group="openb",
        kernels=(KernelRequest("main1", "main", 1, slots),),
        exclusive_cpus=False,
        gpu_models=pod.models,
    )
