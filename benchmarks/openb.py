"""The Alibaba trace of 2023 (openb): how much GPU capacity ends up allocated when pods arrive one after
another and never leave.

    python -m benchmarks.openb --nodes NODES.csv --pods PODS.csv --arrivals ORDER.npy --mode online \\
        --policy least-fragmentation --json result.json

Arrivals are row numbers of the pod list sorted by name. A pod that fits nowhere is skipped; its demand
still counts as arrived. Load is arrived GPU milli over the cluster's; the result is allocated GPU milli
over the cluster's, in percent, at each load.

An online run is made twice: the published FGD (`benchmarks.peers.fgd`) gets the same nodes, pods and
arrivals; `--no-peer` leaves it out. With `--mode batch` the arrivals of each load are known at once and
packed in one plan: `allocated` is then what fits when requests may be refused, `allocated_in_order` when
everything that the online policy took stays.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.openb_batch import prefixes, replay_batch
from benchmarks.openb_trace import LOADS, Pod, read_nodes, read_pods, request
from benchmarks.peers.fgd import Fgd
from benchmarks.results import keep
from planner.model.demand import demand_of
from planner.model.request_kinds import count_request_kinds
from planner.model.types import GroupInfo, NodeInfo
from planner.nodes.node_table import MapperCache, NodeTable
from planner.policies import built_in_policies
from planner.selection.gang import ShapeCache, try_place
from planner.selection.node_scorer import NodeScorer


class Online:
    """Pods one by one onto the cluster, by one selection strategy."""

    def __init__(self, nodes: Sequence[NodeInfo], pods: Sequence[Pod], policy: str) -> None:
        self.group = GroupInfo("openb", selection=policy)
        self.table = NodeTable(nodes, MapperCache())
        listed = [request(pod, at) for at, pod in enumerate(pods)]
        kinds = count_request_kinds(
            (demand_of(one.kernels[0], one, self.group), one.gpu_models) for one in listed
        )
        self.table.request_source = lambda: kinds
        strategy = built_in_policies().selection[policy](self.group, self.table)
        self.scorer = NodeScorer(self.table, policy, strategy)
        self.shapes = ShapeCache(self.group)

    def place(self, pod: Pod, number: int) -> bool:
        return bool(self.where(pod, number))

    def where(self, pod: Pod, number: int) -> str:
        """The node that the pod is put on; empty when it fits nowhere."""
        session = request(pod, number)
        placement = try_place(self.scorer, session, self.shapes.of(session))
        return placement.kernels[0].node if placement else ""


def replay(
    nodes: Sequence[NodeInfo], pods: Sequence[Pod], order: Sequence[int], policy: str
) -> dict[str, object]:
    """Allocated percent by load, what is left in parts of GPUs, and the time it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    online = Online(nodes, pods, policy)
    capacity = _capacity(nodes)
    allocated = _by_load(online.place, pods, order, capacity)
    free = online.table.devices
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


def replay_peer(nodes: Sequence[NodeInfo], pods: Sequence[Pod], order: Sequence[int]) -> dict[str, object]:
    """Allocated percent by load that FGD reaches on the same arrivals, and the time it took."""
    cpu = time.process_time()
    allocated = _by_load(Fgd(nodes, pods).place, pods, order, _capacity(nodes))
    return {"name": "FGD", "allocated": allocated, "cpu_s": time.process_time() - cpu}


def _capacity(nodes: Sequence[NodeInfo]) -> int:
    """GPU milli of the cluster."""
    return 1000 * sum(len(node.hardware.gpus) for node in nodes)


def _by_load(
    place: Callable[[Pod, int], bool], pods: Sequence[Pod], order: Sequence[int], capacity: int
) -> dict[str, float]:
    """Allocated percent when each load of LOADS was reached; what was not reached has the last value."""
    return {str(load): percent for load, percent in _reached(place, pods, order, capacity)}


def _reached(
    place: Callable[[Pod, int], bool], pods: Sequence[Pod], order: Sequence[int], capacity: int
) -> Iterator[tuple[int, float]]:
    arrived = allocated = 0
    open_ = list(LOADS)
    for number, row in enumerate(order):
        pod = pods[row]
        arrived += pod.demand
        allocated += pod.demand if place(pod, number) else 0
        while open_ and arrived * 100 >= open_[0] * capacity:
            yield open_.pop(0), 100 * allocated / capacity
    for load in open_:
        yield load, 100 * allocated / capacity


def replay_at_once(
    nodes: Sequence[NodeInfo], pods: Sequence[Pod], order: Sequence[int], policy: str, loads: Sequence[int]
) -> dict[str, object]:
    """As `replay`, with the whole queue in one plan at each load."""
    wall, cpu = time.perf_counter(), time.process_time()
    capacity = _capacity(nodes)
    online = Online(nodes, pods, policy)
    chosen = [one for one in prefixes(pods, order, capacity, online.where) if one.load in loads]
    plans = {str(one.load): replay_batch(nodes, capacity, one) for one in chosen}
    free = 100 - plans[max(plans, key=int)]["free"]["allocated"]
    return {
        "policy": policy,
        "arrivals": len(order),
        "allocated": {load: plan["free"]["allocated"] for load, plan in plans.items()},
        "allocated_in_order": {load: plan["in_order"]["allocated"] for load, plan in plans.items()},
        "fragmentation": {"free_percent": free},
        "plans": plans,
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
    }


def _table(result: dict[str, Any]) -> Iterator[tuple[str, dict[str, float]]]:
    """(name, percent by load), line by line."""
    for key in ("allocated", "allocated_in_order"):
        if key in result:
            yield key, result[key]
    if peer := result.get("peer"):
        yield peer["name"], peer["allocated"]
        yield (
            f"ahead of {peer['name']} by",
            {load: percent - peer["allocated"][load] for load, percent in result["allocated"].items()},
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True)
    parser.add_argument("--arrivals", type=Path, required=True)
    parser.add_argument("--mode", choices=("online", "batch"), default="online")
    parser.add_argument(
        "--policy", choices=sorted(built_in_policies().selection), default="least-fragmentation"
    )
    parser.add_argument(
        "--loads", type=int, nargs="+", choices=LOADS, default=LOADS, help="with --mode batch"
    )
    parser.add_argument("--no-peer", action="store_true", help="do not run FGD on the same arrivals")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    order = [int(row) for row in np.load(asked.arrivals)]
    trace = read_nodes(asked.nodes), read_pods(asked.pods), order, asked.policy
    result = replay(*trace) if asked.mode == "online" else replay_at_once(*trace, asked.loads)
    if asked.mode == "online" and not asked.no_peer:
        result["peer"] = replay_peer(*trace[:3])
    named = f"{asked.pods.stem}, {asked.arrivals.stem}, {asked.mode}, {asked.policy}"
    print(f"{named}: {result['cpu_s']:.1f} s CPU, {result['wall_s']:.1f} s")
    for name, percents in _table(result):
        print(f"  {name:20}", *(f"{load}: {percent:.2f}" for load, percent in percents.items()))
    keep(result, asked.json)


if __name__ == "__main__":
    main()
