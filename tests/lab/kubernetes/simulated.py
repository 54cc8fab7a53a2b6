"""Simulated nodes: kwok answers for them, and nothing runs there. For scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.lab.cache import command
from tests.lab.kubernetes import cpus, gpus
from tests.lab.kubernetes.api import CORE, RESOURCE, Api
from tests.lab.kubernetes.control_plane import ControlPlane
from tests.lab.kubernetes.daemon import Daemon
from tests.lab.kubernetes.gpus import H100
from tests.lab.spaces import within
from tests.waiting import until

LABEL = "type=kwok"
"""Which nodes and ResourceSlices are simulated."""
_STOPPED = """\
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-time-is-up}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
      - {key: .status.phase, operator: In, values: [Running]}
      - {key: '.spec.activeDeadlineSeconds | tostring', operator: In, values: ["1"]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      phase: Failed
      reason: DeadlineExceeded
      message: Pod was active on the node longer than the specified deadline
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name }}
        image: {{ .image }}
        ready: false
        restartCount: 0
        state: {terminated: {exitCode: 137, reason: Error, finishedAt: {{ $now }}, startedAt: {{ $now }}}}
      {{ end }}
"""
"""What kubelets do to a pod whose time is up, as it is when somebody ends it early."""
_AT_ONCE = 16
_ANNOTATION = "kwok.x-k8s.io/node"


@dataclass(frozen=True)
class NodeShape:
    """What a simulated node says that it has."""

    name: str
    gpus: int = 8
    cpus: int = 96
    memory: str = "1Ti"
    product: str = H100
    """Of its GPUs."""
    hugepages: Mapping[str, str] = field(default_factory=dict)
    """Name of the resource → amount, set aside of the memory."""
    counted: Mapping[str, str] = field(default_factory=dict)
    """What device plugins count: name of the resource → amount."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Beside its own."""


def keeper(plane: ControlPlane) -> Daemon:
    """The program that answers for all of them."""
    stages = plane.folder / "stages.yaml"
    stages.write_text(command([str(plane.programs / "kwok-stages")]) + _STOPPED)
    argv = [
        str(plane.programs / "kwok"), "--kubeconfig", str(plane.inner_kubeconfig), "--config", str(stages),
        "--manage-all-nodes=false", f"--manage-nodes-with-annotation-selector={_ANNOTATION}=fake",
        f"--node-lease-duration-seconds={max(40, plane.node_grace)}",
    ]  # fmt: skip
    return Daemon("kwok", argv, plane.folder / "kwok.log", within(plane.namespace, []))


def add(api: Api, shapes: Sequence[NodeShape], *, cores: bool) -> list[str]:
    """These nodes, once they are Ready; a taint of theirs keeps the scheduler from them. `cores`: a driver
    publishes their CPUs."""
    names = [shape.name for shape in shapes]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        made = set(pool.map(lambda shape: _create(api, shape, cores=cores), shapes))
    until(lambda: made <= _ready(api), f"{len(names)} simulated nodes are Ready", seconds=300, pause=0.2)
    return names


def remove(api: Api) -> None:
    """All of them, with their devices and what is said to run there."""
    api.clear(f"{CORE}/nodes?labelSelector={LABEL}")
    api.clear(f"{RESOURCE}/resourceslices?labelSelector={LABEL}")


def _create(api: Api, shape: NodeShape, *, cores: bool) -> str:
    """Its UID: of one name there may have been another."""
    node = api.create(f"{CORE}/nodes", node_object(shape))
    owner = {"apiVersion": "v1", "kind": "Node", "name": shape.name, "uid": node["metadata"]["uid"]}
    published = {
        gpus.DRIVER: gpus.devices(shape.name, shape.gpus, shape.product),
        cpus.DRIVER: cpus.devices(range(shape.cpus), threads=2) if cores else [],
    }
    for driver, devices in published.items():
        if devices:
            api.create(f"{RESOURCE}/resourceslices", slice_of(driver, devices, owner))
    return owner["uid"]


def slice_of(driver: str, devices: list[dict[str, Any]], owner: dict[str, str]) -> dict[str, Any]:
    """As a driver publishes it on the node that is its owner."""
    name = owner["name"]
    about = {"name": f"{name}-{driver}", "ownerReferences": [owner], "labels": {"type": "kwok"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": about,
        "spec": {
            "driver": driver,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def node_object(shape: NodeShape) -> dict[str, Any]:
    capacity = {
        "cpu": str(shape.cpus),
        "memory": shape.memory,
        "pods": "110",
        **shape.hugepages,
        **shape.counted,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": shape.name,
            "annotations": {_ANNOTATION: "fake"},
            "labels": {
                "kubernetes.io/hostname": shape.name,
                "kubernetes.io/os": "linux",
                "type": "kwok",
                **shape.labels,
            },
        },
        "spec": {"taints": [{"key": _ANNOTATION, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _ready(api: Api) -> set[str]:
    """UIDs, by the server's cache, which may have nodes that are gone."""
    items = api.get(f"{CORE}/nodes?labelSelector={LABEL}&resourceVersion=0")["items"]
    return {
        each["metadata"]["uid"]
        for each in items
        if any(
            one["type"] == "Ready" and one["status"] == "True" for one in each["status"].get("conditions", [])
        )
    }
