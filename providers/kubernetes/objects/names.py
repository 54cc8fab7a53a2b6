"""What a kernel's objects are called, and their paths in the API."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PREFIX = "bai.dev/"
"""Of bai's labels, annotations and taints."""
TAINT = f"{PREFIX}node"
"""Of nodes that are kept for bai."""
TOLERATED = (TAINT, "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""What becomes of a session whose node is lost is decided by bai, not by the cluster's eviction after five
minutes."""
SCHEDULER = "bai"
"""`schedulerName` of bai's pods: no scheduler in the cluster has it, so that nobody else binds them."""
CONTAINER = "main"
"""The one container of a pod that bai makes."""


@dataclass(frozen=True, slots=True)
class PodRef:
    """Of a kernel: its name is the kernel's id, unless it was adopted."""

    namespace: str
    name: str
    container: str = CONTAINER

    def new_given(self) -> str:
        """A name for its claims, secret and config map that no earlier pod of this name had: a kubelet that
        still knows theirs would give them to this one, or prepare no claim of another UID."""
        return f"{self.name}-{secrets.token_hex(4)}"

    @property
    def path(self) -> str:
        return f"{namespaced('pods', self.namespace)}/{self.name}"


def namespaced(resource: str, namespace: str) -> str:
    """`/api/v1/namespaces/bai/pods`, and the same for resource claims."""
    root = RESOURCE_API if resource == "resourceclaims" else "/api/v1"
    return f"{root}/namespaces/{namespace}/{resource}"


RESOURCE_API = "/apis/resource.k8s.io/v1"


def kernel_container(containers: Iterable[Mapping[str, Any]] | None) -> Mapping[str, Any]:
    """Of a pod's containers, or of what is said of each: the kernel's, by its name, or the only one, where
    the pod was adopted. Empty where there is none."""
    found = list(containers or ())
    named = next((each for each in found if each.get("name") == CONTAINER), None)
    return named if named is not None else found[0] if len(found) == 1 else {}
