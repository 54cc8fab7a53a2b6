"""What a decision costs: 1,000 pending sessions on a cluster of 8-GPU nodes, exact devices included.

    python -m benchmarks.throughput --nodes 1250 --json result.json

The mix: 20 % CPU-only (8 cores, 64 GiB), 70 % with 1 to 8 GPUs on one node (8 cores and 64 GiB per GPU), 10
% gangs of 2 or 4 nodes with 8 GPUs each. Measured is the CPU time of one call of `planner.place.place`,
everything in it (reading the snapshot, explanations, metrics), divided by the number of sessions; the best
of `--repeat` runs.

Backend.AI's manager gets the same nodes and sessions in the same command (`benchmarks/peers/backendai.py`),
once, in an environment of its own: `--peer-python PATH`, or BAI_BENCH_PEER_PYTHON. Without one
`peer_decision_ms` and `ratio` are null, and the reason is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.results import keep
from planner.model.types import GroupInfo, KernelRequest, NodeInfo, SessionRequest, Snapshot
from planner.place import place
from planner.policies import built_in_policies
from schemas.hardware.model import Gpu, Hardware, Link, NumaNode

GIB = 1 << 30
PEER = Path(__file__).parent / "peers" / "backendai.py"
PEER_SELECTION = ("concentrated", "dispersed")
"""Strategies that the peer has too; any other is compared with the first."""


class NoPeer(Exception):
    """Why the peer was not measured."""


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


def measure(world: Snapshot, repeat: int) -> dict[str, Any]:
    """Milliseconds of CPU per decision and what came of it."""
    sessions = len(world.pending)
    policies = built_in_policies()
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        outcome = place(world, policies)
        best = min(best, time.process_time() - start)
    return {
        "nodes": len(world.nodes),
        "sessions": sessions,
        "selection": world.groups[0].selection,
        "placed": len(outcome.placements),
        "waiting": len(outcome.waits),
        "plan_cpu_s": best,
        "decision_ms": 1000 * best / sessions,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure_peer(world: Snapshot, python: str) -> dict[str, Any]:
    """What Backend.AI's scheduler takes for the same sessions. Raises NoPeer."""
    if not python:
        raise NoPeer("no interpreter with backend.ai-manager given (--peer-python)")
    command = [python, str(PEER)]
    try:
        done = subprocess.run(
            command, input=json.dumps(workload(world)), capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise NoPeer(f"{python}: {error.strerror}") from None
    lines = done.stderr.strip().splitlines()
    if done.returncode != 0:
        raise NoPeer(f"{python} failed: {lines[-1] if lines else done.returncode}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def workload(world: Snapshot) -> dict[str, Any]:
    """Nodes and sessions in the peer's terms: slots by name, `cpu` in physical cores, `mem` in
    bytes."""
    machine = world.nodes[0].hardware
    selection = world.groups[0].selection
    return {
        "nodes": len(world.nodes),
        "node": {
            "cpu": len(machine.siblings),
            "mem": sum(numa.memory for numa in machine.numa_nodes),
            "cuda.device": len(machine.gpus),
        },
        "selection": selection if selection in PEER_SELECTION else PEER_SELECTION[0],
        "sessions": [
            [{**kernel.slots, "cpu": kernel.slots["cpu"] // 1000} for kernel in session.kernels]
            for session in world.pending
        ],
    }


def compare(world: Snapshot, python: str, decision_ms: float) -> dict[str, Any]:
    """Runs the peer and prints how it does; the fields of the JSON that speak of it."""
    try:
        peer = measure_peer(world, python)
    except NoPeer as reason:
        print(f"  Backend.AI's manager was not measured: {reason}")
        return {"peer_decision_ms": None, "ratio": None}
    ratio = peer["decision_ms"] / decision_ms
    print(
        f"  {peer['name']} {peer['version']} ({peer['selection']}): {peer['decision_ms']:.3f} ms a decision, "
        f"{peer['placed']} placed, {peer['waiting']} wait: {ratio:.0f} times"
    )
    return {"peer_decision_ms": peer["decision_ms"], "ratio": ratio, "peer": peer}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--selection", default="concentrated")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--peer-python", default=os.environ.get("BAI_BENCH_PEER_PYTHON", ""))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    world = snapshot(asked.nodes, asked.sessions, asked.seed, asked.selection)
    result = measure(world, asked.repeat)
    print(
        f"{asked.nodes} nodes, {asked.sessions} sessions ({asked.selection}): "
        f"{result['decision_ms']:.3f} ms a decision, {result['plan_cpu_s']:.2f} s in all, "
        f"{result['placed']} placed, {result['waiting']} wait, {result['peak_rss_mib']:.0f} MiB"
    )
    result |= compare(world, asked.peer_python, result["decision_ms"])
    keep(result, asked.json)


if __name__ == "__main__":
    main()
