"""Pods of others, as the API server shows them."""

from __future__ import annotations

from typing import Any

from tests.providers.kubernetes.specs import claim

TOKEN = {"name": "kube-api-access-x2k", "projected": {"sources": [{"serviceAccountToken": {}}]}}
_OF_CONTAINERS = frozenset({
    "args", "command", "env", "envFrom", "image", "livenessProbe", "ports", "resources", "securityContext",
    "stdin", "tty", "volumeDevices", "volumeMounts", "workingDir",
})  # fmt: skip


def stranger(name: str = "train", **spec: Any) -> dict[str, Any]:
    """A pod as `kubectl run` makes it, running on n0, with these fields of its own or of its container."""
    container: dict[str, Any] = {
        "name": "app", "image": "registry.example/tool:2", "command": ["sh", "-c"], "args": ["date"],
        "resources": {"requests": {"cpu": "1500m", "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
        "volumeMounts": [
            {"name": TOKEN["name"], "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
        ],
    }  # fmt: skip
    of_pod = {key: spec.pop(key) for key in list(spec) if key not in _OF_CONTAINERS}
    metadata = {"name": name, "namespace": "team-a", "uid": f"u-{name}", **of_pod.pop("metadata", {})}
    status = {"phase": "Running", **of_pod.pop("status", {})}
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": "n0", "restartPolicy": "Never", "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30, "volumes": [TOKEN], "containers": [{**container, **spec}],
            **of_pod,
        },
        "status": status,
    }  # fmt: skip


def claimed(**fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod, and the claim that was made for it from a template."""
    made = claim("train-gpus-x", "gpu-1", namespace="team-a", owner="u-train", **fields)
    made["status"]["reservedFor"] = [{"resource": "pods", "name": "train", "uid": "u-train"}]
    pod = stranger(
        resourceClaims=[{"name": "gpus", "resourceClaimTemplateName": "one"}],
        status={"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "train-gpus-x"}]},
    )
    return pod, made
