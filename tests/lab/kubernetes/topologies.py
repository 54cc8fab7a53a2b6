"""NodeResourceTopology objects, as nfd-topology-updater writes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.lab.kubernetes.lab import Kubernetes

API = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
_CRD = Path(__file__).parent / "crds" / "topology.node.k8s.io_noderesourcetopologies.yaml"


@contextlib.contextmanager
def topologies(lab: Kubernetes, *objects: dict[str, Any]) -> Iterator[None]:
    """The cluster has these meanwhile."""
    lab.kubectl("apply", "-f", str(_CRD))
    try:
        lab.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(_CRD))
        for each in objects:
            lab.api.create(API, each)
        yield
    finally:
        lab.kubectl("delete", "-f", str(_CRD), "--ignore-not-found")


def topology(name: str, zones: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Of a node: CPUs and memory of each of its NUMA nodes, which are equally far from each other."""

    def zone(number: int, cpu: str, memory: str) -> dict[str, Any]:
        costs = [
            {"name": f"node-{other}", "value": 10 if other == number else 21} for other in range(len(zones))
        ]
        amounts = {"cpu": cpu, "memory": memory}
        resources = [
            {"name": what, "capacity": each, "allocatable": each, "available": each}
            for what, each in amounts.items()
        ]
        return {"name": f"node-{number}", "type": "Node", "costs": costs, "resources": resources}

    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": [zone(number, *each) for number, each in enumerate(zones)],
    }
