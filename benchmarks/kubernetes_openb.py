"""The openb trace on a control plane: whether the cluster holds what the planner said, device for device.

    python -m benchmarks.kubernetes_openb --nodes NODES.csv --pods PODS.csv --arrivals 600 --json result.json

Starts a real control plane of its own (see tests/lab; needs root and Go) with the trace's nodes, simulated by
kwok: as many CPUs, as much memory and as many GPUs of that name. Pods of the trace arrive in an order of
chance, a batch at a time, and none leaves: each is a session, and each batch is planned and applied. Pods
that ask for part of a GPU are left out, since pods of this provider have whole ones; the others ask for 0 to
8 GPUs, in some lists of the trace for one of several models.

After each batch all pods and claims of the namespace, asked without bai, are compared with all plans so far:
the node of each session, and the devices of its claim. `different` counts sessions where they are not the
same, or where one side has a session and the other one has not; `twice` counts devices that two claims have.
The command ends with 1 where either is not 0.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.kubernetes import NODE_GRACE
from benchmarks.kubernetes_repository import Repository, session
from benchmarks.openb_trace import MIB, Pod, read_nodes, read_pods
from benchmarks.results import parser_of, show
from providers.kubernetes.objects.names import PREFIX
from reconciler.values.plan import Plan
from reconciler.values.sides import SessionSide
from reconciler.workspace.workspace import Workspace
from tests.lab.kubernetes.api import CORE, RESOURCE
from tests.lab.kubernetes.gpus import gpu_uuid
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.needs import why_not
from tests.lab.kubernetes.simulated import NodeShape

Held = tuple[str, frozenset[str]]
"""Node and devices of a session."""


def shapes(file: Path, count: int) -> list[NodeShape]:
    """Of nodes drawn from the trace, each kind as often as there; 0: all of them."""
    nodes = read_nodes(file)
    chosen = nodes if not count else random.Random(1).sample(nodes, count)
    return [
        NodeShape(
            node.name,
            len(node.hardware.gpus),
            len(node.hardware.numa_nodes[0].cpus),
            str(node.hardware.numa_nodes[0].memory),
            node.hardware.gpus[0].model if node.hardware.gpus else "",
        )
        for node in chosen
    ]


def arriving(file: Path, count: int, seed: int) -> list[Pod]:
    whole = [pod for pod in read_pods(file) if not pod.gpus or pod.gpu_milli >= 1000]
    return random.Random(seed).sample(whole, min(count, len(whole)))


def planned(plan: Plan) -> dict[str, Held]:
    """What it gives sessions that it makes."""
    found = {}
    for action in plan.changes:
        side = action.after
        if isinstance(side, SessionSide) and side.placement is not None:
            (kernel,) = side.placement.kernels
            found[action.id.rpartition("/")[2]] = (kernel.node, frozenset(one.id for one in kernel.devices))
    return found


def held(lab: Kubernetes, namespace: str) -> tuple[dict[str, Held], int]:
    """What the cluster says, and how many devices were given twice."""
    items = [
        lab.api.get(f"{api}/namespaces/{namespace}/{kind}")["items"]
        for api, kind in ((CORE, "pods"), (RESOURCE, "resourceclaims"))
    ]
    given: dict[str, set[str]] = {}
    count: Counter[str] = Counter()
    for claim in items[1]:
        results = claim["status"]["allocation"]["devices"]["results"]
        uuids = [gpu_uuid(one["pool"], int(one["device"].removeprefix("gpu-"))) for one in results]
        given[claim["metadata"]["name"]] = set(uuids)
        count.update(uuids)
    found = {}
    for pod in items[0]:
        claims = [one["resourceClaimName"] for one in pod["spec"].get("resourceClaims", ())]
        devices = frozenset(device for name in claims for device in given[name])
        found[pod["metadata"]["labels"][f"{PREFIX}session"]] = (pod["spec"]["nodeName"], devices)
    return found, sum(times > 1 for times in count.values())


def differences(said: Mapping[str, Held], there: Mapping[str, Held]) -> int:
    return sum(said.get(name) != there.get(name) for name in said.keys() | there.keys())


def replay(lab: Kubernetes, repository: Repository, pods: Sequence[Pod], batch: int) -> dict[str, Any]:
    said: dict[str, Held] = {}
    different = twice = waiting = 0
    begin = time.perf_counter()
    for first in range(0, len(pods), batch):
        documents = []
        for number, pod in enumerate(pods[first : first + batch], first):
            resources: dict[str, object] = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory // MIB}MiB"}
            if pod.gpus:
                resources["cuda.device"] = pod.gpus
            documents.append(session(f"o{number}", resources, models=sorted(pod.models)))
        repository.write(f"arrivals-{first}", *documents)
        with Workspace.open(repository.folder) as workspace:
            plan = workspace.plan()
            result = workspace.apply(plan, holder="benchmarks.kubernetes_openb")
        if failed := [each.error for each in result.results if each.error]:
            sys.exit("; ".join(failed))
        said |= planned(plan)
        waiting = len(plan.waits)
        there, again = held(lab, repository.namespace)
        different, twice = max(different, differences(said, there)), max(twice, again)
    return {
        "placed": len(said),
        "waiting": waiting,
        "gpus": sum(len(devices) for _, devices in said.values()),
        "batches": -(-len(pods) // batch),
        "different": different,
        "twice": twice,
        "seconds": round(time.perf_counter() - begin, 1),
    }


def main() -> None:
    parser = parser_of("kubernetes_openb", __doc__)
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True)
    parser.add_argument("--machines", type=int, default=0, help="how many of the nodes; 0: all")
    parser.add_argument("--arrivals", type=int, default=600)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", default="least-fragmentation")
    given = parser.parse_args()
    if reason := why_not():
        sys.exit(reason)
    pods = arriving(given.pods, given.arrivals, given.seed)
    lab = Kubernetes(NODE_GRACE)
    os.environ["KUBECONFIG"] = str(lab.kubeconfig)
    try:
        names = lab.simulate(shapes(given.nodes, given.machines))
        with lab.namespace() as namespace, tempfile.TemporaryDirectory(prefix="bai-openb-") as folder:
            repository = Repository(Path(folder), namespace, names, given.policy)
            found = {"nodes": len(names), "arrivals": len(pods), **replay(lab, repository, pods, given.batch)}
    finally:
        lab.close()
    show(found, given.json)
    sys.exit(bool(found["different"] or found["twice"]))


if __name__ == "__main__":
    main()
