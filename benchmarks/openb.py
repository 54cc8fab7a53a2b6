"""The Alibaba trace of 2023 (openb): how much GPU capacity ends up allocated when pods arrive one after
another and never leave.

    python -m benchmarks.openb --nodes NODES.csv --pods PODS.csv --arrivals ORDER.npy --mode online \\
        --policy least-fragmentation --json result.json

Arrivals are row numbers of the pod list sorted by name. A pod that fits nowhere is skipped; its demand still
counts as arrived. Load is arrived GPU milli over the cluster's; the result is allocated GPU milli over the
cluster's, in percent, at each load.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.demand import demand_of
from planner.fragmentation import typical
from planner.gang import Shapes, try_place
from planner.place import BUILT_IN
from planner.selection.choose import Chooser
from planner.snapshot import Machines, World
from planner.types import GroupInfo, KernelRequest, NodeInfo, SessionRequest
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


class Online:
    """Pods one by one onto the cluster, by one selection strategy."""

    def __init__(self, nodes: Sequence[NodeInfo], pods: Sequence[Pod], policy: str) -> None:
        self.group = GroupInfo("openb", selection=policy)
        self.world = World(nodes, Machines())
        listed = [request(pod, at) for at, pod in enumerate(pods)]
        kinds = typical((demand_of(one.kernels[0], one, self.group), one.gpu_models) for one in listed)
        self.world.requests = lambda: kinds
        strategy = BUILT_IN.selection[policy](self.group, self.world)
        self.chooser = Chooser(self.world, policy, strategy)
        self.shapes = Shapes(self.group)

    def place(self, pod: Pod, number: int) -> bool:
        session = request(pod, number)
        return try_place(self.chooser, session, self.shapes.of(session)) is not None


def replay(
    nodes: Sequence[NodeInfo], pods: Sequence[Pod], order: Sequence[int], policy: str
) -> dict[str, object]:
    """Allocated percent by load, what is left in parts of GPUs, and the time it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    online = Online(nodes, pods, policy)
    capacity = 1000 * sum(len(node.hardware.gpus) for node in nodes)
    allocated: dict[str, float] = {}
    for load, percent in _by_load(online, pods, order, capacity):
        allocated[str(load)] = percent
    free = online.world.devices
    return {
        "policy": policy,
        "arrivals": len(order),
        "allocated": allocated,
        "fragmentation": {
            "free_percent": 100 * float(free.sum()) / capacity,
            "in_parts_percent": 100 * float(free[free < 1000].sum()) / capacity,
        },
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
    }


def _by_load(
    online: Online, pods: Sequence[Pod], order: Sequence[int], capacity: int
) -> Iterator[tuple[int, float]]:
    """(load, allocated percent) each time a load of LOADS is reached; what was not reached has the last
    value."""
    arrived = allocated = 0
    open_ = list(LOADS)
    for number, row in enumerate(order):
        pod = pods[row]
        arrived += pod.demand
        allocated += pod.demand if online.place(pod, number) else 0
        while open_ and arrived * 100 >= open_[0] * capacity:
            yield open_.pop(0), 100 * allocated / capacity
    for load in open_:
        yield load, 100 * allocated / capacity


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True)
    parser.add_argument("--arrivals", type=Path, required=True)
    parser.add_argument("--mode", choices=("online",), default="online")
    parser.add_argument("--policy", choices=sorted(BUILT_IN.selection), default="least-fragmentation")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    order = [int(row) for row in np.load(asked.arrivals)]
    result = replay(read_nodes(asked.nodes), read_pods(asked.pods), order, asked.policy)
    shown = ", ".join(f"{load} %: {percent:.2f}" for load, percent in result["allocated"].items())  # type: ignore[attr-defined]
    named = f"{asked.pods.stem}, {asked.arrivals.stem}, {asked.policy}"
    print(f"{named}: allocated at load {shown} ({result['cpu_s']:.1f} s CPU)")
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
