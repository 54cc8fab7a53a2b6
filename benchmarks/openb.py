"""The Alibaba trace of 2023 (openb): how much GPU capacity ends up allocated when pods arrive one after
another and never leave.

    python -m benchmarks.openb --nodes NODES.csv --pods PODS.csv --arrivals ORDER.npy --mode online \\
        --policy least-fragmentation --json result.json

Arrivals are row numbers of the pod list sorted by name. A pod that fits nowhere is skipped; its demand
still counts as arrived. With `--mode batch` the arrivals of each load are known at once and packed in
one plan: `allocated` is then what fits when requests may be refused, `allocated_in_order` when
everything that the online policy took stays. Load is arrived GPU milli over the cluster's; the result is
allocated GPU milli over the cluster's, in percent, at each load.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.openb_batch import prefixes, replay_batch
from benchmarks.openb_trace import LOADS, Pod, read_nodes, read_pods, request
from planner.demand import demand_of
from planner.fragmentation import typical
from planner.gang import Shapes, try_place
from planner.place import BUILT_IN
from planner.selection.choose import Chooser
from planner.snapshot import Machines, World
from planner.types import GroupInfo, NodeInfo


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


def replay_at_once(
    nodes: Sequence[NodeInfo], pods: Sequence[Pod], order: Sequence[int], policy: str, loads: Sequence[int]
) -> dict[str, object]:
    """As `replay`, with the whole queue in one plan at each load."""
    wall, cpu = time.perf_counter(), time.process_time()
    capacity = 1000 * sum(len(node.hardware.gpus) for node in nodes)
    online = Online(nodes, pods, policy)
    chosen = [one for one in prefixes(pods, order, capacity, online.place) if one.load in loads]
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True)
    parser.add_argument("--arrivals", type=Path, required=True)
    parser.add_argument("--mode", choices=("online", "batch"), default="online")
    parser.add_argument("--policy", choices=sorted(BUILT_IN.selection), default="least-fragmentation")
    parser.add_argument(
        "--loads", type=int, nargs="+", choices=LOADS, default=LOADS, help="with --mode batch"
    )
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    order = [int(row) for row in np.load(asked.arrivals)]
    trace = read_nodes(asked.nodes), read_pods(asked.pods), order, asked.policy
    result = replay(*trace) if asked.mode == "online" else replay_at_once(*trace, asked.loads)
    named = f"{asked.pods.stem}, {asked.arrivals.stem}, {asked.mode}, {asked.policy}"
    print(f"{named}: {result['cpu_s']:.1f} s CPU, {result['wall_s']:.1f} s")
    for key in ("allocated", "allocated_in_order"):
        if shown := result.get(key):
            print(f"  {key:20}", *(f"{load}: {percent:.2f}" for load, percent in shown.items()))  # type: ignore[attr-defined]
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
