"""Pods with two GPUs each: bai against the cluster's own scheduler, on the same simulated nodes.

    python -m benchmarks.kubernetes --nodes 1250 --pods 200 --json result.json

Starts a real control plane of its own (see tests/lab; needs root and Go), whose nodes are simulated by kwok:
nothing runs there, so that what is measured is who decides and who says so. In turn:

- `look`: a first look at everything by a new process, and looks after it, with CPU-seconds and peak memory.
- `placed`: bai creates the pods, each with its devices, and binds them (`--parallel` at a time).
- `scheduled`: the same pods and claims of two GPUs by a CEL expression, left to kube-scheduler.

Both end when the last pod runs. `ratio`: the scheduler's seconds by bai's.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.results import parser_of, show
from providers.base import KernelSpec, Labels
from providers.kubernetes.api.access import kubeconfig_access
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.objects.names import namespaced
from providers.kubernetes.provider import KubernetesProvider
from schemas.kinds.parts.kubernetes import Kubernetes as Options
from tests.lab.docker import IMAGE
from tests.lab.kubernetes.gpus import DRIVER, gpu_uuid
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.needs import why_not

GPUS = 2
NODE_GRACE = 300
"""So that simulated nodes leave the machine to what is measured."""
EACH = 8
"""GPUs of a node."""
LOOKS = 5
TOLERATED = [{"operator": "Exists"}]


def main() -> None:
    parser = parser_of("kubernetes", __doc__)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--look", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.look:
        print(json.dumps(look(given.look)))
        return
    if reason := why_not():
        sys.exit(reason)
    lab = Kubernetes(NODE_GRACE)
    try:
        show(measure(lab, given.nodes, given.pods, given.parallel), given.json)
    finally:
        lab.close()


def measure(lab: Kubernetes, nodes: int, pods: int, parallel: int) -> dict[str, Any]:
    names = lab.kwok(nodes, EACH)
    argv = [sys.executable, "-m", "benchmarks.kubernetes", "--look", str(lab.kubeconfig)]
    found = {"nodes": nodes, "pods": pods, "look": json.loads(subprocess.check_output(argv))}
    with lab.namespace() as namespace:
        found["placed"] = placed(lab, namespace, names, pods, parallel)
    with lab.namespace() as namespace:
        found["scheduled"] = scheduled(lab, namespace, pods, parallel)
    found["ratio"] = round(found["scheduled"]["seconds"] / found["placed"]["seconds"], 2)
    return found


def look(kubeconfig: Path) -> dict[str, Any]:
    """In a process of its own."""
    provider = KubernetesProvider(ApiClient(kubeconfig_access([kubeconfig])), Options())
    begin, cpu = time.perf_counter(), time.process_time()
    provider.capabilities()
    first = provider.observe()
    seconds, used = time.perf_counter() - begin, time.process_time() - cpu
    provider.observe()
    cpu = time.process_time()
    for _ in range(LOOKS):
        provider.observe()
    later = (time.process_time() - cpu) / LOOKS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    provider.close()
    return {
        "complete": first.complete,
        "first_s": round(seconds, 2),
        "first_cpu_s": round(used, 2),
        "later_cpu_s": round(later, 4),
        "peak_mib": round(peak),
    }


def placed(lab: Kubernetes, namespace: str, names: list[str], pods: int, parallel: int) -> dict[str, Any]:
    client = ApiClient(kubeconfig_access([lab.kubeconfig]))
    provider = KubernetesProvider(client, Options(namespace=namespace))
    provider.observe()
    begin, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(lambda number: provider.create(_spec(names, number)), range(pods)))
    created, used = time.perf_counter() - begin, time.process_time() - cpu
    await_running(client, namespace, pods)
    seconds = time.perf_counter() - begin
    provider.close()
    return {"seconds": round(seconds, 2), "created_s": round(created, 2), "cpu_s": round(used, 2)}


def _spec(names: list[str], number: int) -> KernelSpec:
    """The next two GPUs that are free."""
    per_node = EACH // GPUS
    node, first = names[number // per_node], GPUS * (number % per_node)
    labels = Labels("repo", "lab", f"Session/p/s{number}", 1, "d", "main1", node)
    devices = tuple(gpu_uuid(node, first + at) for at in range(GPUS))
    identifier = f"s{number}-main1-0-g1"
    return KernelSpec(
        identifier, labels, ("sleep", "1"), {}, image=IMAGE, cpu_milli=100, memory=2**20, devices=devices
    )


def scheduled(lab: Kubernetes, namespace: str, pods: int, parallel: int) -> dict[str, Any]:
    return leave_to_scheduler(lab, namespace, {f"s{number}": GPUS for number in range(pods)}, parallel)


def leave_to_scheduler(
    lab: Kubernetes, namespace: str, pods: Mapping[str, int], parallel: int
) -> dict[str, Any]:
    """Pods by name, with so many GPUs each, created by as many threads, until all run."""
    client = ApiClient(kubeconfig_access([lab.kubeconfig]))
    begin = time.perf_counter()
    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(lambda one: _create_unplaced(client, namespace, *one), pods.items()))
    created = time.perf_counter() - begin
    await_running(client, namespace, len(pods))
    client.close()
    return {"seconds": round(time.perf_counter() - begin, 2), "created_s": round(created, 2)}


def _create_unplaced(client: ApiClient, namespace: str, name: str, gpus: int) -> None:
    cel = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"'
    exactly = {"deviceClassName": DRIVER, "count": gpus, "selectors": [{"cel": {"expression": cel}}]}
    claim = {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}},
    }
    amounts = {"cpu": "100m", "memory": "1Mi"}
    container = {
        "name": "main", "image": IMAGE, "args": ["sleep", "1"],
        "resources": {"requests": amounts, "limits": amounts, "claims": [{"name": "gpus"}]},
    }  # fmt: skip
    pod = {
        "metadata": {"name": name},
        "spec": {
            "tolerations": TOLERATED,
            "resourceClaims": [{"name": "gpus", "resourceClaimName": name}],
            "containers": [container],
        },
    }
    client.create(namespaced("resourceclaims", namespace), claim)
    client.create(namespaced("pods", namespace), pod)


def await_running(client: ApiClient, namespace: str, pods: int) -> None:
    path, query = namespaced("pods", namespace), {"fieldSelector": "status.phase=Running"}
    while len(client.list(path, query).items) < pods:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
