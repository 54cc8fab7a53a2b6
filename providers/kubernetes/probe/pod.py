"""The pod that looks at one node. Pure.

A bare pod, which is made on its node (`spec.nodeName`) in one request: no Job, which would take more
permissions, and no moment in which it waits for anybody to bind it. It ends by itself, also where whoever
made it is gone, and has nothing that the Pod Security Standard `restricted` does not give: the collector is
an argument, and what it reads every container sees.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from providers.kubernetes.objects.labels import MANAGED
from providers.kubernetes.objects.names import CONTAINER, PREFIX, SCHEDULER, TOLERATED, PodRef
from providers.probe.zipapp import build
from schemas.kinds.parts.kubernetes import Kubernetes

PROBE = f"{PREFIX}probe"
"""The label of these pods: `true`."""
SECONDS = 120
"""For one pod, its image's pull included: then its kubelet ends it."""
_NOBODY = 65534
_RUN = """
import base64, os, runpy, sys
file = os.memfd_create("probe")
data = base64.b64decode(sys.argv[1])
while data:
    data = data[os.write(file, data):]
sys.argv = ["probe"]
runpy.run_path("/proc/self/fd/%d" % file, run_name="__main__")
"""


def probe_ref(namespace: str, node: str) -> PodRef:
    """One for each node, so that two who look at the same time know of each other."""
    return PodRef(namespace, f"bai-probe-{hashlib.sha256(node.encode()).hexdigest()[:16]}")


def selector() -> str:
    return ",".join(f"{name}={value}" for name, value in {**MANAGED, PROBE: "true"}.items())


def probe_manifest(ref: PodRef, node: str, image: str, options: Kubernetes) -> dict[str, Any]:
    """The body of a POST. It asks for nothing, and says so, for quotas want a word: nobody's room is less for
    it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {**MANAGED, PROBE: "true"},
        },
        "spec": {
            "nodeName": node,
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": SECONDS,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"key": key, "operator": "Exists"} for key in TOLERATED],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _NOBODY,
                "runAsGroup": _NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "imagePullSecrets": [{"name": name} for name in options.image_pull_secrets],
            "containers": [_container(image)],
        },
    }


def _container(image: str) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": image,
        "command": ["python3", "-I", "-S", "-c", _RUN, base64.b64encode(build(inside=True)).decode()],
        "resources": {
            "requests": {"cpu": "0", "memory": "0"},
            "limits": {"cpu": "1", "memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
