"""The openb trace with the whole queue in one plan: all arrivals of a load are known at once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.openb_trace import LOADS, Pod
from planner.batch.cutting_stock import pack
from planner.batch.values import Fills, NodeClass, RequestClass, request_value
from planner.model.types import NodeInfo

Kind = tuple[int, int, int, int, tuple[str, ...]]


@dataclass(frozen=True)
class Loaded:
    """The pods that have arrived at one load, and those that an online policy placed, by node."""

    load: int
    arrived: Counter[Kind]
    placed: dict[str, Counter[Kind]]

    def accepted(self, kind: Kind) -> int:
        return sum(fill[kind] for fill in self.placed.values())


def prefixes(
    pods: Sequence[Pod], order: Sequence[int], capacity: int, where: Callable[[Pod, int], str]
) -> list[Loaded]:
    """One per load of LOADS; what the arrivals do not reach has all of them. `where`: the node that a pod is
    put on; empty: none."""
    found: list[Loaded] = []
    arrived: Counter[Kind] = Counter()
    placed: dict[str, Counter[Kind]] = {}
    total = 0
    for number, row in enumerate(order):
        pod = pods[row]
        total += pod.demand
        arrived[kind_of(pod)] += 1
        if node := where(pod, number):
            placed.setdefault(node, Counter())[kind_of(pod)] += 1
        while len(found) < len(LOADS) and total * 100 >= LOADS[len(found)] * capacity:
            found.append(_loaded(LOADS[len(found)], arrived, placed))
    return [*found, *(_loaded(load, arrived, placed) for load in LOADS[len(found) :])]


def _loaded(load: int, arrived: Counter[Kind], placed: dict[str, Counter[Kind]]) -> Loaded:
    return Loaded(load, arrived.copy(), {node: fill.copy() for node, fill in placed.items()})


def kind_of(pod: Pod) -> Kind:
    return (pod.cpu, pod.memory, pod.gpus, pod.gpu_milli if pod.gpus else 0, tuple(sorted(pod.models)))


def node_classes(nodes: Sequence[NodeInfo]) -> dict[int, NodeClass]:
    """By the identity of the hardware that equal nodes share."""
    counted = Counter(id(node.hardware) for node in nodes)
    hardware = {id(node.hardware): node.hardware for node in nodes}
    return {
        key: NodeClass(
            gpus=len(one.gpus),
            cpu=1000 * sum(len(numa.cpus) for numa in one.numa_nodes),
            memory=sum(numa.memory for numa in one.numa_nodes),
            count=counted[key],
            model=one.gpus[0].model if one.gpus else "",
        )
        for key, one in hardware.items()
    }


def request_classes(kinds: Counter[Kind]) -> list[RequestClass]:
    return [
        RequestClass(
            cpu, memory, gpus, milli, count, value=request_value(gpus * milli, cpu), models=frozenset(models)
        )
        for (cpu, memory, gpus, milli, models), count in sorted(kinds.items())
    ]


def replay_batch(nodes: Sequence[NodeInfo], capacity: int, prefix: Loaded) -> dict[str, dict[str, float]]:
    """What fits when requests may be refused, and when everything that the online policy took must stay."""
    classes = node_classes(nodes)
    kinds = sorted(prefix.arrived)
    requests = request_classes(prefix.arrived)
    stay = [replace(one, required=prefix.accepted(kind)) for one, kind in zip(requests, kinds, strict=True)]
    kept = start_of(nodes, list(classes), kinds, prefix.placed)
    return {
        "free": _run(list(classes.values()), requests, capacity, ()),
        "in_order": _run(list(classes.values()), stay, capacity, kept),
    }


def start_of(
    nodes: Sequence[NodeInfo], classes: Sequence[int], kinds: Sequence[Kind], placed: dict[str, Counter[Kind]]
) -> Fills:
    """What was placed, node by node, as fills."""
    hardware = {node.name: id(node.hardware) for node in nodes}
    number = {kind: at for at, kind in enumerate(kinds)}
    return [
        (classes.index(hardware[node]), {number[kind]: count for kind, count in fill.items()}, 1)
        for node, fill in placed.items()
    ]


def _run(
    classes: list[NodeClass], requests: list[RequestClass], capacity: int, start: Fills
) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    packing = pack(classes, requests, start=start)
    placed = sum(one.gpu_milli * count for one, count in zip(requests, packing.placed, strict=True))
    refused = sum(one.count for one in requests) - sum(packing.placed)
    without_gpu = sum(
        one.count - count for one, count in zip(requests, packing.placed, strict=True) if not one.gpus
    )
    missing = sum(max(0, one.required - count) for one, count in zip(requests, packing.placed, strict=True))
    return {
        "allocated": 100 * placed / capacity,
        "refused": refused,
        "given_up": missing,
        "refused_without_gpu": without_gpu,
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
    }
