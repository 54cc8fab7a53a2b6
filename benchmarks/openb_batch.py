"""The openb trace with the whole queue in one plan: all arrivals of a load are known at once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.openb_trace import LOADS, Pod
from planner.batch.cutting import keep, pack
from planner.batch.values import NodeClass, RequestClass
from planner.types import NodeInfo

Kind = tuple[int, int, int, int, tuple[str, ...]]


@dataclass(frozen=True)
class Loaded:
    """The pods that have arrived at one load, and which of them an online policy placed."""

    load: int
    arrived: Counter[Kind]
    accepted: Counter[Kind]


def prefixes(
    pods: Sequence[Pod], order: Sequence[int], capacity: int, place: Callable[[Pod, int], bool]
) -> list[Loaded]:
    """One per load of LOADS that is reached."""
    found: list[Loaded] = []
    arrived: Counter[Kind] = Counter()
    accepted: Counter[Kind] = Counter()
    total = 0
    for number, row in enumerate(order):
        pod = pods[row]
        total += pod.demand
        arrived[kind_of(pod)] += 1
        accepted[kind_of(pod)] += place(pod, number)
        while len(found) < len(LOADS) and total * 100 >= LOADS[len(found)] * capacity:
            found.append(Loaded(LOADS[len(found)], arrived.copy(), accepted.copy()))
    return found


def kind_of(pod: Pod) -> Kind:
    return (pod.cpu, pod.memory, pod.gpus, pod.gpu_milli if pod.gpus else 0, tuple(sorted(pod.models)))


def node_classes(nodes: Sequence[NodeInfo]) -> list[NodeClass]:
    counted = Counter(id(node.hardware) for node in nodes)
    hardware = {id(node.hardware): node.hardware for node in nodes}
    return [
        NodeClass(
            gpus=len(one.gpus),
            cpu=1000 * sum(len(numa.cpus) for numa in one.numa_nodes),
            memory=sum(numa.memory for numa in one.numa_nodes),
            count=counted[key],
            model=one.gpus[0].model if one.gpus else "",
        )
        for key, one in hardware.items()
    ]


def request_classes(kinds: Counter[Kind]) -> list[RequestClass]:
    """A hundredth of a GPU is worth a core, so that no pod without GPU is dropped lightly."""
    return [
        RequestClass(
            cpu, memory, gpus, milli, count, value=100 * gpus * milli + cpu, models=frozenset(models)
        )
        for (cpu, memory, gpus, milli, models), count in sorted(kinds.items())
    ]


def replay_batch(nodes: Sequence[NodeInfo], capacity: int, prefix: Loaded) -> dict[str, dict[str, float]]:
    """What fits when requests may be refused, and when everything that the online policy took must stay."""
    classes = node_classes(nodes)
    requests = request_classes(prefix.arrived)
    accepted = [prefix.accepted[kind] for kind in sorted(prefix.arrived)]
    return {
        "free": _run(classes, requests, capacity),
        "in_order": _run(classes, keep(requests, accepted), capacity),
    }


def _run(classes: list[NodeClass], requests: list[RequestClass], capacity: int) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    packing = pack(classes, requests)
    placed = sum(one.gpu_milli * count for one, count in zip(requests, packing.placed, strict=True))
    refused = sum(one.count for one in requests) - sum(packing.placed)
    without_gpu = sum(
        one.count - count for one, count in zip(requests, packing.placed, strict=True) if not one.gpus
    )
    return {
        "allocated": 100 * placed / capacity,
        "refused": refused,
        "refused_without_gpu": without_gpu,
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
    }
