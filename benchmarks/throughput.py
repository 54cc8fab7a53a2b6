"""What a decision costs: 1,000 pending sessions on a cluster of 8-GPU nodes, exact devices included.

    python -m benchmarks.throughput --nodes 1250 --json result.json

The mix: 20 % CPU-only (8 cores, 64 GiB), 70 % with 1 to 8 GPUs on one node (8 cores and 64 GiB per GPU), 10
% gangs of 2 or 4 nodes with 8 GPUs each. Measured is the CPU time of one call of `planner.place.place`,
everything in it (reading the snapshot, explanations, metrics), divided by the number of sessions; the best
of `--repeat` runs. Backend.AI's manager runs in the same command where it is installed.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from pathlib import Path

from planner.place import place
from planner.types import GroupInfo, KernelRequest, NodeInfo, SessionRequest, Snapshot
from schemas.hardware.model import Gpu, Hardware, Link, NumaNode

GIB = 1 << 30


def hardware() -> Hardware:
    """A DGX-class node: two sockets with 48 cores and 1 TiB each, four NVSwitch-linked GPUs on each."""
    numa = tuple(
        NumaNode(
            id=at,
            cpus=(*range(at * 48, at * 48 + 48), *range(96 + at * 48, 96 + at * 48 + 48)),
            memory=1024 * GIB,
            distances={at: 10, 1 - at: 21},
        )
        for at in range(2)
    )
    gpus = tuple(
        Gpu(id=f"GPU-{at}", index=at, model="H100", numa_node=at // 4, memory=80 * GIB) for at in range(8)
    )
    links = tuple(Link(a=f"GPU-{a}", b=f"GPU-{b}", kind="NV", count=18) for b in range(8) for a in range(b))
    siblings = tuple((core, core + 96) for core in range(96))
    return Hardware(numa_nodes=numa, siblings=siblings, gpus=gpus, links=links, nv_switches=4)


def request(at: int, chance: random.Random) -> SessionRequest:
    draw = chance.random()
    gpus, kernels = (
        (0, 1) if draw < 0.2 else (chance.randint(1, 8), 1) if draw < 0.9 else (8, chance.choice((2, 4)))
    )
    slots = {"cpu": 8000 * max(1, gpus), "mem": 64 * GIB * max(1, gpus)}
    if gpus:
        slots["cuda.device"] = gpus
    return SessionRequest(
        id=f"Session/bench/s{at:06}",
        group="bench",
        kernels=tuple(KernelRequest(f"main{index}", "main", index, slots) for index in range(1, kernels + 1)),
        multi_node=kernels > 1,
        user=f"user{at % 50}",
        project=f"project{at % 10}",
        enqueued=float(at),
    )


def snapshot(nodes: int, sessions: int, seed: int, selection: str) -> Snapshot:
    chance = random.Random(seed)
    machine = hardware()
    return Snapshot(
        nodes=tuple(NodeInfo(f"node{at:05}", machine, "bench") for at in range(nodes)),
        groups=(GroupInfo("bench", selection=selection),),
        pending=tuple(request(at, chance) for at in range(sessions)),
    )


def measure(nodes: int, sessions: int, seed: int, selection: str, repeat: int) -> dict[str, object]:
    """Milliseconds of CPU per decision and what came of it."""
    world = snapshot(nodes, sessions, seed, selection)
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        outcome = place(world)
        best = min(best, time.process_time() - start)
    return {
        "nodes": nodes,
        "sessions": sessions,
        "selection": selection,
        "placed": len(outcome.placements),
        "waiting": len(outcome.waits),
        "plan_cpu_s": best,
        "decision_ms": 1000 * best / sessions,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "peer_decision_ms": None,
        "ratio": None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--selection", default="concentrated")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    result = measure(asked.nodes, asked.sessions, asked.seed, asked.selection, asked.repeat)
    print(
        f"{asked.nodes} nodes, {asked.sessions} sessions ({asked.selection}): "
        f"{result['decision_ms']:.3f} ms a decision, "
        f"{result['placed']} placed, {result['waiting']} wait, {result['peak_rss_mib']:.0f} MiB"
    )
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
