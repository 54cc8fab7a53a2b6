"""Whether a namespace admits pods that mount folders of nodes, or NFS exports: the API server is asked with a
pod that it is told not to make.

Under the Pod Security Standards `restricted` allows neither, `baseline` exports, `privileged` both
(https://kubernetes.io/docs/concepts/security/pod-security-standards/).
"""

from __future__ import annotations

from typing import Any

from providers.base import Mount
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.errors import FORBIDDEN, ApiRefusal
from providers.kubernetes.objects.names import namespaced
from providers.kubernetes.objects.volumes import source_of

_INVALID = 422


def admission_problem(client: ApiClient, namespace: str, server: str, root: str) -> str:
    """Empty when it does. Raises ApiRefusal, OSError where that cannot be asked."""
    try:
        client.create(namespaced("pods", namespace), _pod(server, root), {"dryRun": "All"})
    except ApiRefusal as refusal:
        if refusal.status not in (FORBIDDEN, _INVALID) or "exceeded quota" in refusal.message:
            raise
        what = "an NFS export" if server else "a folder of its node"
        return f"no pod of namespace {namespace} may mount {what}: {refusal.message}"
    return ""


def _pod(server: str, root: str) -> dict[str, Any]:
    """One that `restricted` has nothing else against."""
    container = {
        "name": "main",
        "image": "none",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    source = source_of(Mount(root, "/mnt", root=root, server=server))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bai-admission"},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": [{"name": "volume", **source}],
        },
    }
