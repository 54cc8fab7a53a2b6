"""Specs of kernels for the tests, and what the API server says of them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from providers.base import KernelSpec, Labels
from providers.kubernetes.objects import labels as own
from tests.lab.docker import IMAGE

ID = "s-main1-0-g1"
UID = 1_900_004_242
"""The project's user."""
MIB = 2**20
SLEEP = "trap 'exit 0' TERM; sleep 1000 & wait"
"""Ends when it is told to: a kubelet gives whoever does not two seconds at least."""
LABELS = Labels(
    repo="repo", cluster="lab", resource="Session/p/s", generation=1, digest="d1", kernel="main1", node="n0",
    document='{"kind":"Session"}',
)  # fmt: skip


def kernel(name: str = ID, *command: str, node: str = "n0", **fields: Any) -> KernelSpec:
    """A kernel that sleeps until it is told to end, unless told otherwise, and has a second for that."""
    labels = fields.pop("labels", replace(LABELS, node=node))
    given = {"image": IMAGE, "env": {}, "uid": UID, "stop_grace": 1.0, **fields}
    return KernelSpec(id=name, labels=labels, command=command or ("sh", "-c", SLEEP), **given)


def script(text: str, name: str = ID, **fields: Any) -> KernelSpec:
    """A kernel that runs a shell script."""
    return kernel(name, "sh", "-c", text, **fields)


def pod(
    phase: str = "Running",
    state: dict[str, Any] | None = None,
    *,
    labels: Labels = LABELS,
    metadata: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    container: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """A kernel's pod as the API server shows it; `state` is its container's."""
    about = {
        "name": ID, "namespace": "bai", "uid": "u1", "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T12:00:00Z", "labels": own.selectable(labels),
        "annotations": {own.LABELS: own.to_annotation(labels)},
    }  # fmt: skip
    containers = [{"name": "main", "state": state, **(container or {})}] if state is not None else []
    return {
        "metadata": {**about, **(metadata or {})},
        "spec": {"nodeName": labels.node, "containers": [{"name": "main", "image": IMAGE}], **(spec or {})},
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }


def node(name: str = "n0", *, ready: str = "True", **spec: Any) -> dict[str, Any]:
    """A node as the API server shows it."""
    amounts = {"cpu": "8", "memory": "64Gi"}
    return {
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": "5"},
        "spec": spec,
        "status": {
            "capacity": amounts, "allocatable": {"cpu": "7500m", "memory": "63Gi"},
            "conditions": [{"type": "Ready", "status": ready, "message": "kubelet stopped posting status"}],
            "nodeInfo": {"architecture": "amd64", "kubeletVersion": "v1.36.3"},
        },
    }  # fmt: skip


def resource_slice(
    *devices: dict[str, Any], driver: str = "gpu.nvidia.com", node: str = "n0", count: int = 1,
    generation: int = 1, pool: str = "",
) -> dict[str, Any]:  # fmt: skip
    about = {"name": pool or node, "generation": generation, "resourceSliceCount": count}
    return {"spec": {"driver": driver, "nodeName": node, "pool": about, "devices": list(devices)}}


def gpu(number: int, **attributes: Any) -> dict[str, Any]:
    """A whole GPU, `GPU-<number>`, as NVIDIA's driver publishes it."""
    given = {
        "type": "gpu", "uuid": f"GPU-{number}", "resource.kubernetes.io/pciBusID": f"0000:0{number}:00.0",
        **attributes,
    }  # fmt: skip
    said = {name: {"string": value} for name, value in given.items() if value is not None}
    return {"name": f"gpu-{number}", "attributes": said, "capacity": {"memory": {"value": "80Gi"}}}


def claim(
    name: str, *devices: str, namespace: str = "others", driver: str = "gpu.nvidia.com", pool: str = "n0",
    owner: str = "", **result: Any,
) -> dict[str, Any]:  # fmt: skip
    """A claim that has devices, by their names in the pool; `owner`: UID of the pod that it is for."""
    owners = [{"kind": "Pod", "uid": owner}] if owner else []
    results = [{"request": "r", "driver": driver, "pool": pool, "device": each, **result} for each in devices]
    return {
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def forged(**changed: Any) -> str:
    """The annotation of a kernel with other values than bai writes."""
    return own.json.dumps({**asdict(LABELS), **changed})
