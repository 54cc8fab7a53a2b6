"""Sessions as containers: bai against the `docker` command and docker-compose, on the same real engine.

    python -m benchmarks.launch --provider docker --count 1,20,100 --json result.json

Starts engines of its own (see tests/lab; needs root and the Debian package docker.io), measures in turn, and
removes everything. All start the same containers: the same image, command, limits, capabilities and log
options.

- `ours_s`: plan and apply of that many sessions, from documents to running containers, in a process that has
  planned before (as `bai reconcile` has); `ours_command_s`: the whole command `bai apply` in a new
  repository, interpreter, making the store and all.
- `docker_cli_s`: `docker run -d` for each, as many at a time as bai (`--parallel`); `docker_cli_in_turn_s`:
  one after the other.
- `compose_s`: `docker-compose up -d` of a file with that many services; null with a reason where it is not
  there.
- `best`: the shortest times, of which `to_docker_cli` and `to_compose` are the ratios.
- `observe`: one look at 50 containers on 4 nodes, again and again by the same process, and by `docker ps`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measured_command import run_measured
from benchmarks.results import parser_of, show
from providers.base import KernelSpec, Labels
from providers.docker.container.config import LOG_FILES, LOG_SIZE, container_payload
from providers.docker.container.user import ContainerUser
from schemas.kinds.parts.docker import Docker
from tests.lab.cache import tool
from tests.lab.docker import IMAGE, Engine, Engines, why_not

ROOT = Path(__file__).resolve().parent.parent
UID = 1_900_000_000
AS = ContainerUser(UID, UID)
MEMORY = 16 * 2**20
MILLI = 10
COMMAND = ("sleep", "100000")
NODES, CONTAINERS = 4, 50
IN_TURN = 20
"""Most containers that are started one after the other: it only takes long."""
SELDOM = frozenset({"docker_cli_in_turn", "ours_command"})
"""Measured once for several sessions."""
PROJECT = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: lab}
spec: {provider: docker}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: all}
spec: {queue: fifo}
---
apiVersion: bai/v1
kind: Domain
metadata: {name: d}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: p}
spec: {domain: d}
"""


def repository(folder: Path, engine: Engine, count: int) -> None:
    """Documents of one node and so many sessions."""
    hardware = {"numaNodes": [{"id": 0, "cpus": f"0-{(os.cpu_count() or 1) - 1}", "memory": 64 * 2**30}]}
    node = {"address": "localhost", "resourceGroup": "all", "hardware": hardware}
    node["docker"] = {"socket": engine.socket}
    documents: list[dict[str, Any]] = [
        {"apiVersion": "bai/v1", "kind": "Node", "metadata": {"name": engine.name}, "spec": node}
    ]
    for number in range(count):
        spec = {
            "image": IMAGE,
            "command": COMMAND,
            "resources": {"cpu": f"{MILLI}m", "memory": f"{MEMORY}B"},
            "stop": {"grace": "0s"},
        }
        metadata = {"name": f"s{number}", "project": "p"}
        documents.append({"apiVersion": "bai/v1", "kind": "Session", "metadata": metadata, "spec": spec})
    folder.mkdir(parents=True)
    (folder / "cluster.yaml").write_text("\n---\n".join([PROJECT, json.dumps(documents[0])]))
    (folder / "sessions.yaml").write_text("\n---\n".join(map(json.dumps, documents[1:])))


def ours(engine: Engine, count: int, parallel: int) -> dict[str, float]:
    """In a process of its own: seconds to plan and apply, and its peak of memory."""
    with tempfile.TemporaryDirectory() as folder:
        repository(Path(folder) / "repository", engine, count)
        argv = [sys.executable, "-m", "benchmarks.launch", "--apply", f"{folder}/repository"]
        return _child([*argv, "--parallel", str(parallel)])


def ours_command(engine: Engine, count: int, parallel: int) -> dict[str, float]:
    """The whole command."""
    with tempfile.TemporaryDirectory() as folder:
        repository(Path(folder) / "repository", engine, count)
        bai = [sys.executable, "-m", "bai", "-C", f"{folder}/repository"]
        return _timed([*bai, "apply", "--yes", "--parallel", str(parallel)])


def docker_cli(engine: Engine, count: int, parallel: int) -> dict[str, float]:
    """`docker run -d` for each, so many at a time."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(lambda number: engine.docker(*run_words(number)), range(count)))
    return {"seconds": time.perf_counter() - begin}


def run_words(number: int) -> list[str]:
    """What `docker run` needs to make what bai makes."""
    host = container_payload(spec(number), Docker(), AS)["HostConfig"]
    return [
        "run", "-d", "--name", f"c{number}", "--hostname", "main1", "--cap-drop", "ALL",
        "--user", AS.text,
        "--security-opt", "no-new-privileges", "--memory", str(MEMORY), "--memory-swap", str(MEMORY),
        "--cpu-shares", str(host["CpuShares"]), "--cpu-period", str(host["CpuPeriod"]),
        "--cpu-quota", str(host["CpuQuota"]), "--log-opt", f"max-size={LOG_SIZE}", "--log-opt",
        f"max-file={LOG_FILES}", "--label", "bai.bench=1", IMAGE, *COMMAND,
    ]  # fmt: skip


def compose(engine: Engine, count: int) -> dict[str, float]:
    """`docker-compose up -d` of as many services."""
    host = container_payload(spec(0), Docker(), AS)["HostConfig"]
    service = {
        "image": IMAGE, "command": list(COMMAND), "hostname": "main1", "network_mode": "bridge",
        "cap_drop": ["ALL"], "user": AS.text, "security_opt": ["no-new-privileges"],
        "mem_limit": MEMORY, "memswap_limit": MEMORY, "cpu_shares": host["CpuShares"],
        "cpu_period": host["CpuPeriod"], "cpu_quota": host["CpuQuota"],
        "logging": {"driver": "json-file", "options": host["LogConfig"]["Config"]},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "docker-compose.yml"
        file.write_text(json.dumps({"version": "2.4", "services": {f"c{n}": service for n in range(count)}}))
        argv = [*compose_command(), "-p", "bench", "-f", str(file), "up", "-d"]
        return _timed(argv, DOCKER_HOST=f"unix://{engine.socket}", COMPOSE_HTTP_TIMEOUT="600")


def compose_command() -> list[str]:
    """Empty when there is none."""
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    plugin = [tool("docker"), "compose"]
    there = subprocess.run([*plugin, "version"], check=False, capture_output=True).returncode == 0
    return plugin if there else []


def spec(number: int, node: str = "n1") -> KernelSpec:
    labels = Labels("bench", "lab", f"Session/p/s{number}", 1, "d", "main1", node)
    return KernelSpec(
        f"s{number}-main1-0-g1", labels, COMMAND, {}, image=IMAGE, memory=MEMORY, cpu_milli=MILLI, uid=UID
    )


def apply_here(directory: str, parallel: int) -> dict[str, float]:
    """In the child: a process that has looked at its documents before finds new ones, as the loop does."""
    from reconciler.workspace.workspace import Workspace

    late = Path(directory) / "sessions.yaml"
    text = late.read_text()
    late.unlink()
    _planned_and_applied(Workspace, directory, parallel)
    late.write_text(text)
    return _planned_and_applied(Workspace, directory, parallel)


def _planned_and_applied(workspace_type: Any, directory: str, parallel: int) -> dict[str, float]:
    with workspace_type.open(directory) as workspace:
        begin = time.perf_counter()
        plan = workspace.plan()
        planned = time.perf_counter()
        result = workspace.apply(plan, holder="benchmark", parallel=parallel)
        done = time.perf_counter()
    failed = [each.error for each in result.results if each.outcome != "done"]
    if failed:
        raise SystemExit("; ".join(failed))
    return {"seconds": done - begin, "plan": planned - begin}


def observe(engines: list[Engine]) -> dict[str, float]:
    """Seconds of one look at many containers, by a process that looks again and again."""
    from providers.docker.options import open_docker

    provider = open_docker({}, machines=[engine.endpoint() for engine in engines])
    names = [engine.name for engine in engines]
    specs = [spec(n, names[n % len(names)]) for n in range(CONTAINERS)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(provider.create, [replace(each, memory=MEMORY) for each in specs]))
    looks = [_seconds(lambda: _count(len(provider.observe().kernels))) for _ in range(20)]
    asked = [_seconds(lambda: [engine.docker("ps", "-a") for engine in engines]) for _ in range(5)]
    provider.close()
    return {
        "containers": CONTAINERS,
        "nodes": len(engines),
        "first_s": round(looks[0], 4),
        "median_s": round(statistics.median(looks[1:]), 4),
        "docker_ps_s": round(statistics.median(asked), 4),
        "peak_mib": round(_peak(), 1),
    }


def _count(found: int) -> None:
    assert found == CONTAINERS, found


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _peak() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _child(argv: list[str]) -> dict[str, float]:
    done = subprocess.run(
        argv, cwd=ROOT, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _timed(argv: list[str], **env: str) -> dict[str, float]:
    """Wall seconds and peak of memory of a command."""
    found = run_measured(argv, ROOT, {**os.environ, **env})
    return {"seconds": found.wall, "peak_mib": found.peak_mib}


def compare(engine: Engine, count: int, runs: int, parallel: int) -> dict[str, Any]:
    """Medians of all ways, measured in turn, and the shortest times, which other work disturbs least."""
    ways: dict[str, Callable[[], dict[str, float]]] = {
        "ours": lambda: ours(engine, count, parallel),
        "ours_command": lambda: ours_command(engine, count, parallel),
        "docker_cli": lambda: docker_cli(engine, count, parallel),
    }
    if count <= IN_TURN:
        ways["docker_cli_in_turn"] = lambda: docker_cli(engine, count, 1)
    if compose_command():
        ways["compose"] = lambda: compose(engine, count)
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for run in range(runs):
        for name, way in ways.items():
            if run == 0 or count == 1 or name not in SELDOM:
                samples[name].append(way())
                wipe(engine, count)
    found: dict[str, Any] = {"count": count, "runs": runs, "compose_s": None}
    for name, each in samples.items():
        found[f"{name}_s"] = round(statistics.median(one["seconds"] for one in each), 3)
    found["plan_s"] = round(statistics.median(one["plan"] for one in samples["ours"]), 3)
    found["peak_mib"] = {
        name: round(max(one["peak_mib"] for one in each), 1)
        for name, each in samples.items()
        if "peak_mib" in each[0]
    }
    best = {name: round(min(one["seconds"] for one in each), 3) for name, each in samples.items()}
    found["best"] = best
    found["to_docker_cli"] = round(best["ours"] / best["docker_cli"], 3)
    if found["compose_s"] is None:
        found["compose_why"] = "neither docker-compose nor the compose plugin is installed"
    else:
        found["to_compose"] = round(best["ours"] / best["compose"], 3)
    return found


def wipe(engine: Engine, expected: int) -> None:
    names = engine.docker("ps", "-aq").split()
    assert len(names) == expected, f"{len(names)} containers instead of {expected}"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: engine.docker("rm", "-f", "-v", name), names))
    engine.wipe()


def measure(counts: list[int], runs: int, parallel: int) -> dict[str, Any]:
    engines = Engines()
    try:
        (engine,) = engines(1)
        wipe(engine, 0)
        docker_cli(engine, 1, 1)
        wipe(engine, 1)
        found = [compare(engine, count, max(1, runs // (1 + count // 20)), parallel) for count in counts]
        return {"launch": found, "observe": observe(engines(NODES)), "machine": machine(engine)}
    finally:
        engines.close()


def machine(engine: Engine) -> dict[str, Any]:
    info = json.loads(engine.docker("info", "--format", "{{json .}}"))
    return {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "docker": info["ServerVersion"],
        "storage": info["Driver"],
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = parser_of("launch", __doc__)
    parser.add_argument("--provider", choices=["docker"], default="docker")
    parser.add_argument("--count", default="1,20,100", help="how many sessions; several by comma")
    parser.add_argument("--runs", type=int, default=5, help="of the small counts; fewer of the large ones")
    parser.add_argument("--parallel", type=int, default=32, help="how many at a time")
    parser.add_argument("--apply", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.apply:
        found = apply_here(given.apply, given.parallel)
        print(json.dumps({**found, "peak_mib": _peak()}))
        return
    if reason := why_not():
        raise SystemExit(f"no engine can be started here: {reason}")
    result = measure([int(each) for each in given.count.split(",")], given.runs, given.parallel)
    show(result, given.json)


if __name__ == "__main__":
    main()
