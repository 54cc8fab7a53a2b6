"""All that an import looks at, read once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.errors import NOT_FOUND, ApiRefusal, api_errors
from providers.kubernetes.objects.names import RESOURCE_API

_PATHS = (
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/api/v1/resourcequotas",
    "/api/v1/pods",
    f"{RESOURCE_API}/resourceslices",
    f"{RESOURCE_API}/resourceclaims",
)


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """Objects as the API server shows them."""

    nodes: tuple[Object, ...] = ()
    namespaces: tuple[Object, ...] = ()
    quotas: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    slices: tuple[Object, ...] = ()
    claims: tuple[Object, ...] = ()


def read_cluster(client: ApiClient) -> ClusterObjects:
    """Raises ProviderError, ProviderUnavailable."""

    def look(path: str) -> tuple[Object, ...]:
        with api_errors():
            try:
                return client.list(path).items
            except ApiRefusal as refusal:
                if refusal.status == NOT_FOUND and path.startswith(RESOURCE_API):
                    return ()  # Before Kubernetes 1.34.
                raise

    with ThreadPoolExecutor(len(_PATHS), "bai-import") as pool:
        return ClusterObjects(*pool.map(look, _PATHS))
