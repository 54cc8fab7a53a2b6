"""Where a kernel's pod is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from providers.base import Observed
from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import NOT_FOUND, ApiRefusal, api_errors
from providers.kubernetes.objects import labels
from providers.kubernetes.objects.names import CONTAINER, PodRef, kernel_container, namespaced
from providers.kubernetes.observe.pods import is_ours, parse_pod
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.kernel import KernelNotFound
from schemas.problems.errors.provider import ProviderError


class PodFinder:
    """Kernel → its pod. Remembers namespaces, which a kernel's id does not have."""

    def __init__(self, client: ApiClient, options: Kubernetes) -> None:
        self._client = client
        self._options = options
        self._namespaces: dict[str, str] = {}

    def remember(self, ref: PodRef) -> None:
        self._namespaces[ref.name] = ref.namespace

    def remembers(self, kernel: str) -> bool:
        return kernel in self._namespaces

    def forget(self, kernel: str) -> None:
        self._namespaces.pop(kernel, None)

    def find(self, kernel: str) -> Object:
        """The pod as it is now. Raises KernelNotFound, ProviderUnavailable, ProviderError."""
        with api_errors(kernel):
            found = self._get(kernel)
        if found is None:
            raise KernelNotFound(provider=NAME, kernel=kernel)
        self._namespaces[kernel] = ref_of_pod(found).namespace
        return found

    def ref(self, kernel: str) -> PodRef:
        """Raises KernelNotFound, ProviderUnavailable, ProviderError."""
        return ref_of_pod(self.find(kernel))

    def last_known(self, kernel: str) -> PodRef | None:
        """Where it was, or would be; None where nobody has seen it and projects have namespaces of their
        own."""
        namespace = self._namespaces.get(kernel)
        if namespace is None and not self._options.several_namespaces:
            namespace = self._options.namespace
        return None if namespace is None else PodRef(namespace, kernel)

    def _get(self, kernel: str) -> Object | None:
        ref = self.last_known(kernel)
        if ref is None:
            found = self._first(kernel, "/api/v1/pods", {"fieldSelector": f"metadata.name={kernel}"})
        else:
            found = get_or_none(self._client, ref.path)
        if found is not None and self._is(found, kernel):
            return found
        path = "/api/v1/pods" if ref is None else namespaced("pods", ref.namespace)
        return self._first(kernel, path, {"labelSelector": f"{labels.KERNEL}={kernel}"})

    def _first(self, kernel: str, path: str, query: Mapping[str, str]) -> Object | None:
        listed = self._client.list(path, query).items
        return next((pod for pod in listed if self._is(pod, kernel)), None)

    def _is(self, pod: Object, kernel: str) -> bool:
        about = pod["metadata"]
        return is_ours(pod, self._options) and (labels.adopted_id(about) or about["name"]) == kernel


def get_or_none(client: ApiClient, path: str) -> Object | None:
    """None for what is not there. Raises ApiRefusal, OSError."""
    try:
        return client.get(path)
    except ApiRefusal as refusal:
        if refusal.status != NOT_FOUND:
            raise
        return None


def ref_of_pod(pod: Mapping[str, Any]) -> PodRef:
    metadata = pod["metadata"]
    container = kernel_container((pod.get("spec") or {}).get("containers")).get("name") or CONTAINER
    return PodRef(str(metadata["namespace"]), str(metadata["name"]), str(container))


def observed(pod: Mapping[str, Any]) -> Observed:
    """Raises ProviderError for a pod without readable labels."""
    found = parse_pod(pod)
    if found is None:
        name = pod["metadata"]["name"]
        raise ProviderError(provider=NAME, why=f"pod {name} has no readable labels")
    return found.kernel
