"""A thousand sessions of 1 to 16 GPUs on a large Kubernetes cluster: `bai apply`, the loop that goes on
looking, and the cluster's own scheduler with the same pods.

    python -m benchmarks.kubernetes_sessions --nodes 1250 --sessions 1000 --json result.json

Starts a real control plane of its own (see tests/lab; needs root and Go), whose nodes are simulated by kwok.
In turn:

- `bai`: a repository with these sessions, and `bai apply --yes` as anybody types it, until it ends
  (`applied_s`) and until the last pod runs (`seconds`); CPU time, peak memory and requests of the command.
  A session of 16 GPUs is two pods of eight on two nodes.
- `idle`: passes of the loop over that cluster, in which nothing has changed: CPU-seconds of one and requests
  of all of them, after the two that begin the watches; CPU-seconds of a minute without a pass, in which it
  watches. `fake` is the same for a provider that holds everything in memory (`benchmarks.loop`).
- `scheduled`: the same pods, each with a claim of as many GPUs by a CEL expression, left to kube-scheduler,
  which knows nothing of sessions and picks the GPUs. Nothing but the two creations of each is asked of it.

`ratio`: the scheduler's seconds by bai's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.counted_apply import Requests
from benchmarks.kubernetes import EACH, NODE_GRACE, await_running, leave_to_scheduler
from benchmarks.kubernetes_repository import Repository, session
from benchmarks.loop import AGAIN, Bench
from benchmarks.results import parser_of, show
from providers.kubernetes.api.access import kubeconfig_access
from providers.kubernetes.api.client import ApiClient
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.workspace.workspace import Workspace
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.needs import why_not

ASKED = {1: 30, 2: 25, 4: 20, 8: 15, 16: 10}
"""GPUs of a session → how often, in percent."""
ITSELF = (sys.executable, "-m", "benchmarks.kubernetes_sessions")
PER_FILE = 10
PARALLEL = 32
"""Creations at a time for the scheduler: as many as `bai apply` makes."""


def drawn(count: int, seed: int = 1) -> list[int]:
    """GPUs of each session."""
    return random.Random(seed).choices(tuple(ASKED), tuple(ASKED.values()), k=count)


def pods_of(gpus: int) -> list[int]:
    """GPUs of each pod of a session."""
    return [EACH] * (gpus // EACH) if gpus > EACH else [gpus]


def placed(lab: Kubernetes, folder: Path, namespace: str, pods: int) -> dict[str, Any]:
    told = folder.parent / "applied.json"
    argv = [sys.executable, "-m", "benchmarks.counted_apply", str(folder), "--json", str(told)]
    client = ApiClient(kubeconfig_access([lab.kubeconfig]))
    begin = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(told.read_text())
    del found["code"]
    await_running(client, namespace, pods)
    client.close()
    return {"seconds": round(time.perf_counter() - begin, 2), **found}


def idle(folder: Path, watching: float) -> dict[str, Any]:
    """Of the loop, beside nothing else in this process."""
    requests, said = Requests(), list[str]()
    with Workspace.open(folder) as workspace:
        loop = Loop(workspace, LoopOptions("benchmark", 30), log=said.append)
        for _ in range(2):
            if not loop.once():
                sys.exit("\n".join(said))
        time.sleep(1)
        requests.seen.clear()
        samples = []
        for _ in range(AGAIN):
            begin = time.process_time()
            loop.once()
            samples.append(time.process_time() - begin)
        asked = requests.seen.copy()
        begin = time.process_time()
        time.sleep(watching)
        watched = (time.process_time() - begin) * 60 / watching
    return {
        "passes": AGAIN,
        "cpu_s": round(statistics.median(samples), 3),
        "requests": dict(asked),
        "watching_cpu_s_per_minute": round(watched, 3),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def fake_idle(nodes: int, asked: Sequence[int], root: Path) -> float:
    """CPU-seconds of an idle pass over as many nodes and sessions of the fake provider, whose sessions are of
    one node each."""
    bench = Bench(root, nodes, len(asked), gpus=[min(gpus, EACH) for gpus in asked])
    bench.once()
    bench.once()
    found = statistics.median(bench.once()["cpu"] for _ in range(AGAIN))
    bench.loop.workspace.close()
    return round(found, 3)


def measure(lab: Kubernetes, nodes: int, sessions: int, root: Path, watching: float) -> dict[str, Any]:
    names, asked = lab.kwok(nodes, EACH), drawn(sessions)
    pods = {f"s{at}-{part}": gpus for at, all_ in enumerate(asked) for part, gpus in enumerate(pods_of(all_))}
    found: dict[str, Any] = {
        "nodes": nodes, "sessions": sessions, "pods": len(pods), "gpus": sum(asked),
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip
    folder = root / "kubernetes" / "repository"
    folder.mkdir(parents=True)
    with lab.namespace() as namespace:
        write_sessions(Repository(folder, namespace, names), asked)
        found["bai"] = placed(lab, folder, namespace, len(pods))
        argv = [*ITSELF, "--idle", str(folder), "--watching", str(watching)]
        found["idle"] = json.loads(subprocess.check_output(argv))
    with lab.namespace() as namespace:
        found["scheduled"] = leave_to_scheduler(lab, namespace, pods, PARALLEL)
    found["idle"]["fake_cpu_s"] = fake_idle(nodes, asked, root)
    found["ratio"] = round(found["scheduled"]["seconds"] / found["bai"]["seconds"], 2)
    return found


def write_sessions(repository: Repository, asked: Sequence[int]) -> None:
    for first in range(0, len(asked), PER_FILE):
        documents = []
        for at, gpus in enumerate(asked[first : first + PER_FILE], first):
            parts = pods_of(gpus)
            resources = {"cpu": "100m", "memory": "1MiB", "cuda.device": parts[0]}
            documents.append(session(f"s{at}", resources, pods=len(parts)))
        repository.write(f"sessions-{first}", *documents)


def main() -> None:
    parser = parser_of("kubernetes_sessions", __doc__)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--watching", type=float, default=60, help="seconds without a pass that are measured")
    parser.add_argument("--idle", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.idle:
        show(idle(given.idle, given.watching), None)
        return
    if reason := why_not():
        sys.exit(reason)
    lab = Kubernetes(NODE_GRACE)
    os.environ["KUBECONFIG"] = str(lab.kubeconfig)
    try:
        with tempfile.TemporaryDirectory(prefix="bai-sessions-") as folder:
            show(measure(lab, given.nodes, given.sessions, Path(folder), given.watching), given.json)
    finally:
        lab.close()


if __name__ == "__main__":
    main()
